import { request } from 'node:http'
import { join } from 'node:path'
import { boundedText } from '../runtime/bounded-text.ts'
import {
  errorMessageOf,
  maxNetworkBytes,
  networkSocketName,
  parseNetworkResult,
  type NetworkCommand,
  type NetworkRequest,
  type NetworkResult,
} from '../runtime/network-api.ts'

/** The network agent of this node. */
export interface NetworkClient {
  /** @throws NetworkFailure */
  add(request: NetworkRequest): Promise<NetworkResult>
  /** @throws NetworkFailure */
  check(request: NetworkRequest): Promise<void>
  /** @throws NetworkFailure */
  del(request: NetworkRequest): Promise<void>
}

/** Why a tap was not created, for the condition of its VM. */
export class NetworkFailure extends Error {
  override name = 'NetworkFailure'
  readonly reason: 'NetworkPluginFailed' | 'NetworkAgentUnavailable'
  constructor(reason: NetworkFailure['reason'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

/** A plugin that hangs and what undoes it take two minutes; as many again can run before it. */
const deadlineMs = 300_000

const unavailable =
  "the network agent of the node does not respond; install the overlay network-plugins, or remove the VM's taps"

/** @param directory that of the agent's socket, as mounted here */
export function createNetworkClient(directory: string): NetworkClient {
  const call = async (command: NetworkCommand, body: NetworkRequest): Promise<unknown> => {
    const { status, text } = await exchange(join(directory, networkSocketName), `/${command}`, JSON.stringify(body))
    const value = parsed(text)
    if (status === 200) return value
    const reason = status === 422 || status === 404 ? 'NetworkPluginFailed' : 'NetworkAgentUnavailable'
    throw new NetworkFailure(reason, errorMessageOf(value))
  }
  return {
    add: async (body) => parseNetworkResult(await call('add', body)),
    check: async (body) => void (await call('check', body)),
    del: async (body) => void (await call('del', body)),
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function exchange(socketPath: string, path: string, body: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : ''
      reject(new NetworkFailure('NetworkAgentUnavailable', `${unavailable}${code}`, { cause: error }))
    }
    const sent = request({ socketPath, path, method: 'POST', signal: AbortSignal.timeout(deadlineMs) }, (response) => {
      boundedText(response, maxNetworkBytes).then(
        (text) => resolve({ status: response.statusCode ?? 0, text: text ?? '' }),
        fail,
      )
    })
    sent.on('error', fail)
    sent.end(body)
  })
}

import { createServer, type Server } from 'node:http'
import { boundedText } from '../../runtime/bounded-text.ts'
import type { Lanes } from '../../runtime/lanes.ts'
import type { Logger } from '../../runtime/log.ts'
import {
  InvalidNetworkMessage,
  maxNetworkBytes,
  parseNetworkRequest,
  type NetworkCommand,
  type NetworkRequest,
  type NetworkResult,
} from '../../runtime/network-api.ts'
import { PluginFailed, type PluginRun } from './plugin.ts'
import type { PodNetwork } from './pod-network.ts'

interface ServerOptions {
  /** @throws if the pod has the network of the node */
  readonly openNetwork: (podUID: string) => PodNetwork | undefined
  /** @throws PluginFailed */
  readonly run: (run: PluginRun) => Promise<NetworkResult | undefined>
  /** Those in which a plugin waits for its turn. */
  readonly lanesOf: (plugin: string) => Lanes
  readonly log: Logger
}

const commands: ReadonlyMap<string, NetworkCommand> = new Map([
  ['/add', 'add'],
  ['/check', 'check'],
  ['/del', 'del'],
])

/** Serves the contract of runtime/network-api.ts; the caller listens. */
export function networkServer(options: ServerOptions): Server {
  /** The end of the last request for each pod: two plugins must not change one network at once. */
  const last = new Map<string, Promise<unknown>>()

  const inOrder = async <T>(podUID: string, work: () => Promise<T>): Promise<T> => {
    const before = last.get(podUID)
    const mine = (before ?? Promise.resolve()).then(work, work)
    last.set(podUID, mine)
    try {
      return await mine
    } finally {
      if (last.get(podUID) === mine) last.delete(podUID)
    }
  }

  const respond = async (
    path: string,
    body: AsyncIterable<unknown>,
    gone: AbortSignal,
  ): Promise<{ status: number; value: object }> => {
    const command = commands.get(path)
    if (command === undefined) return { status: 404, value: { error: `${path} is not supported` } }
    const text = await boundedText(body, maxNetworkBytes)
    const request = parseNetworkRequest(JSON.parse(text ?? 'null'))
    // A client repeats ADD and CHECK, so what waits for one that has gone would only delay those that follow. It sends
    // DEL once.
    const signal = command === 'del' ? undefined : gone
    return inOrder(request.pod.uid, () =>
      options.lanesOf(request.plugin).run(request.vm.namespace, () => perform(options, command, request), signal),
    )
  }

  return createServer((request, response) => {
    const path = request.method === 'POST' ? (request.url ?? '') : ''
    const gone = new AbortController()
    response.once('close', () => gone.abort(new Error('the client does not wait for the response any more')))
    respond(path, request, gone.signal)
      .catch((error: unknown) => failure(error, options.log))
      .then(({ status, value }) =>
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value)),
      )
      .catch((error: unknown) => options.log.warn({ err: error }, 'could not respond'))
  })
}

async function perform(
  { openNetwork, run, log }: ServerOptions,
  command: NetworkCommand,
  request: NetworkRequest,
): Promise<{ status: number; value: object }> {
  const { vm, pod, plugin, interface: one } = request
  const network = openNetwork(pod.uid)
  if (network === undefined && command !== 'del')
    return { status: 404, value: { error: `no process of pod ${pod.uid} runs on this node` } }
  try {
    const result = await run({ command, request, network: network?.fd })
    log.info({ vm, podUID: pod.uid, plugin, command, dev: one.dev }, 'ran a network plugin')
    return { status: 200, value: result ?? {} }
  } catch (error) {
    // Nothing half-made must remain. If that fails too, the next ADD begins with what is left.
    if (command === 'add' && error instanceof PluginFailed) await undo(run, request, network, log)
    throw error
  } finally {
    network?.close()
  }
}

async function undo(
  run: ServerOptions['run'],
  request: NetworkRequest,
  network: PodNetwork | undefined,
  log: Logger,
): Promise<void> {
  await run({ command: 'del', request, network: network?.fd }).catch((error: unknown) =>
    log.warn({ err: error, vm: request.vm }, 'could not undo what a network plugin has begun'),
  )
}

function failure(error: unknown, log: Logger): { status: number; value: object } {
  if (error instanceof PluginFailed) return { status: 422, value: { error: error.message } }
  if (error instanceof InvalidNetworkMessage || error instanceof SyntaxError)
    return { status: 400, value: { error: error.message } }
  log.error({ err: error }, 'a request failed')
  return { status: 500, value: { error: error instanceof Error ? error.message : String(error) } }
}

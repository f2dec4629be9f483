import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { isRecord } from '../../api/schema.ts'
import { maxNetworkBytes, parseNetworkRequest, type NetworkRequest } from '../../runtime/network-api.ts'
import { findPodLink, type PodLink } from './pod-link.ts'

/** Inherited from the agent. */
const network = 3

/** What a plugin of virtset does for each command. `del` is not called if the network of the pod is gone. */
interface BuiltIn {
  /** Returns its result. */
  readonly add: (request: NetworkRequest) => object
  readonly check: (request: NetworkRequest) => void
  readonly del: (request: NetworkRequest) => void
}

/** Runs a program in the network of the pod. @throws with what it wrote to stderr */
export function inPod(command: readonly string[], input = ''): string {
  const result = spawnSync('nsenter', ['--net=/proc/self/fd/3', '--', ...command], {
    input,
    encoding: 'utf8',
    maxBuffer: maxNetworkBytes,
    stdio: ['pipe', 'pipe', 'pipe', network],
  })
  if (result.error !== undefined) throw result.error
  if (result.status !== 0) throw new Error(result.stderr.trim() || `${command[0]} failed (${result.status})`)
  return result.stdout
}

/** The interface that has the addresses of the pod. @throws if there is none */
export const readPodLink = ({ pod }: NetworkRequest): PodLink =>
  findPodLink(
    pod.ips,
    JSON.parse(inPod(['ip', '-json', 'address'])),
    JSON.parse(inPod(['ip', '-json', '-4', 'route', 'show', 'default']) || '[]'),
  )

/** Runs a script with a /proc/sys that can be written, which in a container only a mount namespace of its own has. */
export const runWithSysctl = (text: string): string => inPod(['unshare', '--mount', '--', 'sh', '-s'], text)

/** Runs a plugin of virtset as a process of its own: the command, the request and the result are those of any plugin. */
export function runBuiltIn(own: NodeJS.Process, plugin: string, { add, check, del }: BuiltIn): void {
  const run = (command: string | undefined, request: NetworkRequest, hasNetwork: boolean): object => {
    switch (command) {
      case 'ADD':
        return add(request)
      case 'CHECK':
        check(request)
        return {}
      case 'DEL':
        // Everything goes with the network of the pod.
        if (hasNetwork) del(request)
        return {}
      default:
        throw new Error(`VIRTSET_COMMAND=${command}: must be ADD, CHECK or DEL`)
    }
  }
  try {
    const input: unknown = JSON.parse(readFileSync(0, 'utf8'))
    const request = parseNetworkRequest({ ...(isRecord(input) ? input : {}), plugin })
    const hasNetwork = isRecord(input) && input['netns'] !== undefined
    own.stdout.write(`${JSON.stringify(run(own.env['VIRTSET_COMMAND'], request, hasNetwork))}\n`)
  } catch (error) {
    own.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    own.exitCode = 1
  }
}

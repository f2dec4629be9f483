import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { isRecord } from '../../../api/schema.ts'
import { maxNetworkBytes, parseNetworkRequest, type NetworkRequest } from '../../../runtime/network-api.ts'
import { addScript, checkScript, delScript, findPodLink, offerOf } from './routed.ts'

/** Inherited from the agent. */
const network = 3

/** Runs a program in the network of the pod. @throws with what it wrote to stderr */
function inPod(command: readonly string[], input = ''): string {
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

/** With a /proc/sys that can be written, which in a container only a mount namespace of its own has. */
const script = (text: string) => inPod(['unshare', '--mount', '--', 'sh', '-s'], text)

const linkOf = ({ pod }: NetworkRequest) =>
  findPodLink(
    pod.ips,
    JSON.parse(inPod(['ip', '-json', '-4', 'address'])),
    JSON.parse(inPod(['ip', '-json', '-4', 'route', 'show', 'default']) || '[]'),
  )

function run(command: string | undefined, request: NetworkRequest, hasNetwork: boolean): object {
  const one = request.interface
  switch (command) {
    case 'ADD': {
      const link = linkOf(request)
      script(addScript(one, link))
      return { ips: request.pod.ips, dhcp: offerOf(link) }
    }
    case 'CHECK':
      script(checkScript(one, linkOf(request)))
      return {}
    case 'DEL':
      // Everything goes with the network of the pod.
      if (hasNetwork) script(delScript(one))
      return {}
    default:
      throw new Error(`VIRTSET_COMMAND=${command}: must be ADD, CHECK or DEL`)
  }
}

try {
  const input: unknown = JSON.parse(readFileSync(0, 'utf8'))
  const request = parseNetworkRequest({ ...(isRecord(input) ? input : {}), plugin: 'routed' })
  const hasNetwork = isRecord(input) && input['netns'] !== undefined
  process.stdout.write(`${JSON.stringify(run(process.env['VIRTSET_COMMAND'], request, hasNetwork))}\n`)
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}

import type { NetworkRequest } from '../../../runtime/network-api.ts'
import { inPod, runBuiltIn } from '../built-in.ts'
import { addScript, checkScript, delScript, findPodLink, resultOf } from './routed.ts'

/** With a /proc/sys that can be written, which in a container only a mount namespace of its own has. */
const script = (text: string) => inPod(['unshare', '--mount', '--', 'sh', '-s'], text)

const linkOf = ({ pod }: NetworkRequest) =>
  findPodLink(
    pod.ips,
    JSON.parse(inPod(['ip', '-json', 'address'])),
    JSON.parse(inPod(['ip', '-json', '-4', 'route', 'show', 'default']) || '[]'),
  )

runBuiltIn(process, 'routed', {
  add(request) {
    const link = linkOf(request)
    script(addScript(request.interface, link))
    return resultOf(link)
  },
  check: (request) => void script(checkScript(request.interface, linkOf(request))),
  del: (request) => void script(delScript(request.interface)),
})

import type { NetworkRequest } from '../../../runtime/network-api.ts'
import { inPod, runBuiltIn } from '../built-in.ts'
import { addScript, checkScript, delScript, findNetwork } from './redirect.ts'

const script = (text: string) => inPod(['sh', '-s'], text)

const networkOf = ({ interface: one }: NetworkRequest) => findNetwork(one, JSON.parse(inPod(['ip', '-json', 'link'])))

runBuiltIn(process, 'redirect', {
  add(request) {
    script(addScript(request.interface, networkOf(request)))
    // The network has a DHCP server of its own, if any.
    return {}
  },
  check: (request) => void script(checkScript(request.interface, networkOf(request))),
  del: (request) => void script(delScript(request.interface)),
})

import type { NetworkRequest } from '../../../runtime/network-api.ts'
import { inPod, runBuiltIn } from '../built-in.ts'
import { addScript, checkScript, delScript, findNetwork, resultOf } from './redirect.ts'

const script = (text: string) => inPod(['sh', '-s'], text)

const networkOf = ({ interface: one }: NetworkRequest) => {
  const [links, addresses] = ['link', 'address'].map((what) => JSON.parse(inPod(['ip', '-json', what])))
  return findNetwork(one, links, addresses)
}

runBuiltIn(process, 'redirect', {
  add(request) {
    const network = networkOf(request)
    script(addScript(request.interface, network))
    return resultOf(request.interface, network)
  },
  check: (request) => void script(checkScript(request.interface, networkOf(request))),
  del: (request) => void script(delScript(request.interface)),
})

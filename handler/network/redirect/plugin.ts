import type { NetworkRequest } from '../../../runtime/network-api.ts'
import { runScript, type BuiltIn, type PodPrograms } from '../built-in.ts'
import { addScript, checkScript, delScript, findNetwork, resultOf, type Network } from './redirect.ts'

async function readNetwork(pod: PodPrograms, { interface: one }: NetworkRequest): Promise<Network> {
  const links = await pod.run(['ip', '-json', 'link'])
  const addresses = await pod.run(['ip', '-json', 'address'])
  return findNetwork(one, JSON.parse(links), JSON.parse(addresses))
}

export const redirect: BuiltIn = {
  async add(request, pod) {
    const network = await readNetwork(pod, request)
    await runScript(pod, addScript(request.interface, network))
    return resultOf(request.interface, network)
  },
  check: async (request, pod) => runScript(pod, checkScript(request.interface, await readNetwork(pod, request))),
  del: (request, pod) => runScript(pod, delScript(request.interface)),
}

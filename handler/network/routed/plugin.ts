import { readPodLink, runWithSysctl, type BuiltIn } from '../built-in.ts'
import { addScript, checkScript, delScript, resultOf } from './routed.ts'

export const routed: BuiltIn = {
  async add(request, pod) {
    const link = await readPodLink(pod, request)
    await runWithSysctl(pod, addScript(request.interface, link))
    return resultOf(link)
  },
  check: async (request, pod) => runWithSysctl(pod, checkScript(request.interface, await readPodLink(pod, request))),
  del: (request, pod) => runWithSysctl(pod, delScript(request.interface)),
}

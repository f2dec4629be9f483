import { readPodLink, runWithSysctl, type BuiltIn } from '../built-in.ts'
import { addScript, checkScript, delScript, resultOf } from './nat.ts'

export const nat: BuiltIn = {
  async add(request, pod) {
    const link = await readPodLink(pod, request)
    const result = resultOf(link)
    await runWithSysctl(pod, addScript(request.interface, link))
    return result
  },
  check: (request, pod) => runWithSysctl(pod, checkScript(request.interface)),
  del: (request, pod) => runWithSysctl(pod, delScript(request.interface)),
}

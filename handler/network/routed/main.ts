import { readPodLink, runBuiltIn, runWithSysctl } from '../built-in.ts'
import { addScript, checkScript, delScript, resultOf } from './routed.ts'

runBuiltIn(process, 'routed', {
  add(request) {
    const link = readPodLink(request)
    runWithSysctl(addScript(request.interface, link))
    return resultOf(link)
  },
  check: (request) => void runWithSysctl(checkScript(request.interface, readPodLink(request))),
  del: (request) => void runWithSysctl(delScript(request.interface)),
})

import { readPodLink, runBuiltIn, runWithSysctl } from '../built-in.ts'
import { addScript, checkScript, delScript, resultOf } from './nat.ts'

runBuiltIn(process, 'nat', {
  add(request) {
    const link = readPodLink(request)
    const result = resultOf(link)
    runWithSysctl(addScript(request.interface, link))
    return result
  },
  check: (request) => void runWithSysctl(checkScript(request.interface)),
  del: (request) => void runWithSysctl(delScript(request.interface)),
})

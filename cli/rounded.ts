import { longIntegersIn } from '../api/long-integer.ts'
import type { Manifest } from '../inventory/manifests.ts'
import { Usage } from './failure.ts'
import { nameOf } from './input.ts'

/** Admission leaves such integers to the API server, which has what the user wrote. @throws Usage */
export function refuseRounded(object: Manifest): void {
  const [path] = longIntegersIn(object, '')
  if (path === undefined) return
  const [kind, name] = [String(object['kind']), nameOf(object)]
  throw new Usage(
    `${kind} "${name}": ${path} is beyond 2^53. The API server keeps such an integer, but this command would round it`,
  )
}

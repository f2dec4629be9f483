import { isRecord } from '../../api/schema.ts'
import type { About } from './rule.ts'

/** Whether a rule has anything to say where these keys are there. */
export const concerns = ({ about }: { readonly about?: About }, keys: ReadonlySet<string>): boolean =>
  about === undefined || about.some((key) => keys.has(key))

/** Every key of an object, at whatever depth. */
export const keysWithin = (object: object): ReadonlySet<string> => {
  const keys = new Set<string>()
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) visit(item)
    else if (isRecord(value)) {
      for (const key of Object.keys(value)) {
        keys.add(key)
        visit(value[key])
      }
    }
  }
  visit(object)
  return keys
}

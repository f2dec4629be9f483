import { withoutSecrets } from '../api/domain/secret.ts'
import type { Json, JsonObject } from '../runtime/launcher-api.ts'
import { shownLine, shownText } from '../runtime/shown-text.ts'

/**
 * A live domain as the status has it. The launcher may report anything: keys and texts contain only characters that can
 * be shown, and what libvirt hides is left out. Tabs and ends of lines are as the user wrote them in a description.
 */
export const shownDomain = (domain: JsonObject): JsonObject => shownObject(withoutSecrets(domain))

const shownObject = (value: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(value).map(([key, item]) => [shownLine(key), shownValue(item)]))

function shownValue(value: Json): Json {
  if (typeof value === 'string') return value.split('\t').map(shownText).join('\t')
  if (Array.isArray(value)) return value.map(shownValue)
  return typeof value === 'object' && value !== null ? shownObject(value) : value
}

import { withoutSecrets } from '../api/domain/secret.ts'
import type { Json, JsonObject } from '../runtime/launcher-api.ts'
import { shownLine, shownText } from '../runtime/shown-text.ts'

/**
 * A live domain as the status has it. The launcher may report anything: keys and texts contain only characters that can
 * be shown, and what libvirt hides is left out, by the keys that are shown. Only a description can have tabs and several
 * lines.
 */
export const shownDomain = (domain: JsonObject): JsonObject => withoutSecrets(shownObject(domain))

const shownObject = (value: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(value).map(([key, item]) => [shownLine(key), shownValue(item, key)]))

function shownValue(value: Json, key: string): Json {
  if (typeof value === 'string') return key === 'description' ? shownDescription(value) : shownLine(value)
  if (Array.isArray(value)) return value.map((item) => shownValue(item, key))
  return typeof value === 'object' && value !== null ? shownObject(value) : value
}

const shownDescription = (text: string): string => text.split('\t').map(shownText).join('\t')

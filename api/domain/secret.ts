import { isRecord } from '../schema.ts'

/**
 * The keys of a domain whose values are secrets: passwords of screens, and cookies for servers of disks. libvirt shows
 * them only to clients that request them (`VIR_DOMAIN_XML_SECURE`), which virtset does not.
 */
const secretKeys: ReadonlySet<string> = new Set(['passwd', 'cookies'])

/** Text is shown without the white space around it, so that a key with some would be shown as that of a secret. */
const isSecretKey = (key: string): boolean => secretKeys.has(key.trim())

/** Whether a field path, such as `spec.domain.devices.graphics[0].passwd`, is that of a secret or of a part of one. */
export const isSecret = (path: string): boolean => path.split(/[.[\]]/).some(isSecretKey)

/** The value without secrets, at any depth. The input is not modified. */
export function withoutSecrets<T>(value: T): T
export function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => withoutSecrets(item))
  if (!isRecord(value)) return value
  const shown = Object.entries(value).filter(([key]) => !isSecretKey(key))
  return Object.fromEntries(shown.map(([key, item]) => [key, withoutSecrets(item)]))
}

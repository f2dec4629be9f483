import { withoutSecrets } from '../api/domain/secret.ts'
import { longestStatusMessage } from '../api/object.ts'
import { shorten } from '../api/shorten.ts'
import type { DomainReport, Json, JsonObject, SpecDrift } from '../runtime/launcher-api.ts'

/**
 * The largest domain that is stored. 100 devices are 60 KiB and 4,000 values. etcd limits an object to 1.5 MiB, and the
 * handler caches the domains of all VMs of its node, at 60 bytes or more a value.
 */
const maxDomainBytes = 256 * 1024
const maxDomainValues = 8000

/** Of so many differences, a message shows the values. */
export const mostShownDrifts = 5
/** In characters of JSON. A message shows 80 of them. */
const longestDrift = 1024
const unshown: SpecDrift = Object.freeze({ field: '' })

/** A report with only what a status shows, without a domain that is too large to be stored. */
export function withoutLargeParts({ domain, specDrift, ...rest }: DomainReport): DomainReport {
  const isKept = domain !== undefined && !isLarge(domain) && countValues(domain) <= maxDomainValues
  return {
    ...rest,
    ...shortText('message', rest),
    ...shortText('mediaFailure', rest),
    ...(isKept ? { domain } : {}),
    ...(specDrift === undefined
      ? {}
      : { specDrift: specDrift.map((drift, index) => (index < mostShownDrifts ? shortDrift(drift) : unshown)) }),
  }
}

const shortText = (key: 'message' | 'mediaFailure', { [key]: text }: Omit<DomainReport, 'domain'>) =>
  text === undefined ? {} : { [key]: copied(shorten(text, longestStatusMessage)) }

/** V8 keeps the whole text in memory for a part of it, and the message of an event waits with the update before it. */
const copied = (text: string): string => Buffer.from(text).toString()

const shortDrift = ({ field, ...values }: SpecDrift): SpecDrift => ({
  field,
  ...Object.fromEntries(Object.entries(values).map(([side, value]) => [side, shortValue(value)])),
})

const shortValue = (value: Json): Json => {
  if (typeof value === 'string') return shorten(value, longestDrift)
  const text = JSON.stringify(value)
  return text.length <= longestDrift ? value : shorten(JSON.stringify(withoutSecrets(value)), longestDrift)
}

export const isLarge = (domain: JsonObject): boolean => Buffer.byteLength(JSON.stringify(domain)) > maxDomainBytes

/** The number of objects, lists and scalars in `value`, itself included. */
export function countValues(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1
  return Object.values(value).reduce<number>((sum, one: unknown) => sum + countValues(one), 1)
}

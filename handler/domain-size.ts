import type { DomainReport, JsonObject } from '../runtime/launcher-api.ts'

/**
 * The largest domain that is stored. 100 devices are 60 KiB and 4,000 values. etcd limits an object to 1.5 MiB, and the
 * handler caches the domains of all VMs of its node, at 60 bytes or more a value.
 */
const maxDomainBytes = 256 * 1024
const maxDomainValues = 8000

/**
 * A report without a domain that is too large to be stored, and without differences that have as many values. To be
 * called before anything is awaited: a report is kept while the API server is asked, and can take 3 MiB of memory.
 */
export function withoutLargeParts({ domain, specDrift, ...rest }: DomainReport): DomainReport {
  const isKept = domain !== undefined && !isLarge(domain) && countValues(domain) <= maxDomainValues
  return {
    ...rest,
    ...(isKept ? { domain } : {}),
    ...(specDrift === undefined || countValues(specDrift) > maxDomainValues ? {} : { specDrift }),
  }
}

export const isLarge = (domain: JsonObject): boolean => Buffer.byteLength(JSON.stringify(domain)) > maxDomainBytes

/** The number of objects, lists and scalars in `value`, itself included. */
export function countValues(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1
  return Object.values(value).reduce<number>((sum, one: unknown) => sum + countValues(one), 1)
}

import type { DeviceList, DeviceOf } from '../defaults/rule.ts'
import { list } from '../defaults/rule.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { isRecord } from '../../api/schema.ts'
import type { About, Example, Finding, Rule, Subject } from './rule.ts'

export { list, type DeviceOf } from '../defaults/rule.ts'

/**
 * Creates a rule that checks each device of a kind by itself; `at` is its path.
 * @param about keys without which the rule cannot find anything; see `About`
 */
export const eachDevice =
  <K extends DeviceList>(key: K, ...about: About) =>
  (
    id: string,
    description: string,
    check: (device: DeviceOf<K>, at: string, subject: Subject, index: number) => Iterable<Finding>,
    example: Example,
  ): Rule => ({
    id,
    description,
    about: about.length === 0 ? [key] : about,
    check: (subject) => {
      const findings: Finding[] = []
      for (const [index, device] of list(subject.domain, key).entries()) {
        const at = `spec.domain.devices.${key}[${index}]`
        for (const finding of check(device, at, subject, index)) findings.push(finding)
      }
      return findings
    },
    example,
  })

type DeviceAddress = NonNullable<DeviceOf<'controllers'>['address']>

/** The fields that all devices share. */
export interface AnyDevice {
  readonly address?: DeviceAddress
  readonly alias?: { readonly name?: string }
  readonly acpi?: { readonly index?: number | string }
  readonly boot?: { readonly order?: number | string }
  readonly [key: string]: unknown
}

/** A device with its list and path. */
interface Placed {
  readonly kind: string
  readonly at: string
  readonly device: AnyDevice
}

const cache = new WeakMap<Domain, readonly Placed[]>()

/** Every device of the domain, lists and single ones alike. */
export const allDevices = (domain: Domain): readonly Placed[] => {
  const found = cache.get(domain)
  if (found) return found
  const placed: Placed[] = []
  for (const [kind, value] of Object.entries(domain.devices ?? {})) {
    if (Array.isArray(value)) {
      for (const [index, device] of value.entries()) {
        if (isRecord(device)) placed.push({ kind, at: `spec.domain.devices.${kind}[${index}]`, device })
      }
    } else if (isRecord(value)) placed.push({ kind, at: `spec.domain.devices.${kind}`, device: value })
  }
  cache.set(domain, placed)
  return placed
}

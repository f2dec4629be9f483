import { parseVirtualMachine, validPartOf, type VirtualMachine } from '../api/virtual-machine.ts'
import { Refused } from './refused.ts'
import type { SpecDrift } from '../runtime/launcher-api.ts'

/**
 * Removes the fields that a newer version of virtset has added, because webhooks can be newer than launchers. The
 * reports list these fields as drift, so they are not dropped silently. Refuses every other fault.
 * @throws Refused
 */
export function knownPartOf(body: unknown): { readonly vm: VirtualMachine; readonly ignored: readonly SpecDrift[] } {
  const parsed = parseVirtualMachine(body)
  if ('vm' in parsed) return { vm: parsed.vm, ignored: [] }
  const { causes } = parsed
  const valid = causes.every(({ rule }) => rule === 'unknown-field') ? validPartOf(body, causes) : undefined
  // An object with only unknown fields would be removed as a whole, and a device would be missing in the guest.
  const isComplete = valid?.without.every((path) => causes.some(({ field }) => field === path)) ?? false
  if (valid === undefined || !isComplete) {
    throw new Refused('BadRequest', causes.map(({ field, message }) => `${field} ${message}`).join('; '))
  }
  return { vm: valid.vm, ignored: causes.map(({ field, value }) => ({ field: shortened(field), ...specOf(value) })) }
}

/** The handler rejects longer fields. */
const shortened = (field: string): string => field.slice(0, 1024)

/** Only scalars, because an object can be long. */
const specOf = (value: unknown): { readonly spec?: string | number | boolean } =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? { spec: value } : {}

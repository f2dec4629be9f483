import type { Cause, Origin } from '../../api/cause.ts'
import { parentPath } from '../../api/path.ts'
import type { Completed } from '../../completion/complete.ts'
import { originOf, valueAtPath } from '../../completion/origins.ts'
import { originLabel } from '../../presets/source.ts'
import { isSameJson } from './same-json.ts'

/** One who changes a VM after the last mutating request changes few places. */
const mostCauses = 16

/**
 * What another webhook has written over what presets enforce, after the last mutating request: where the object to be
 * stored differs from its completion, and the completion from what was sent. Also found while a preset is known to the
 * replica that validates, and not yet to the one that completed the VM.
 */
export function writtenOver(object: unknown, { vm, origins, overridden, removed, participants }: Completed): Cause[] {
  const enforcing = new Set(
    participants.flatMap(({ preset }) => (preset.strength === 'Enforce' ? [originLabel(preset.origin)] : [])),
  )
  const enforced =
    enforcing.size === 0
      ? []
      : [...origins].filter(([, origin]) => origin.by === 'preset' && enforcing.has(originLabel(origin)))
  const isOverridden = (field: string) => !isSameJson(valueAtPath(object, field), valueAtPath(vm, field))
  // Others can have added items to the list, which completion then completes.
  const isRemoved = (field: string) => sizeOf(valueAtPath(object, field)) > sizeOf(valueAtPath(vm, field))
  const lists = new Set([...removed.keys()].map((path) => (path.endsWith(']') ? parentPath(path) : path)))
  // What is missing in the object has been added again, and overrides nothing.
  const fields = new Set([...overridden.keys(), ...enforced.map(([field]) => field)])
  return [...[...fields].filter(isOverridden), ...[...lists].filter(isRemoved)]
    .slice(0, mostCauses)
    .map((field) => causeOf(field, valueAtPath(object, field), originOf(origins, field)))
}

/** The number of items of a list; of anything else, whether it is there. */
const sizeOf = (value: unknown): number => (Array.isArray(value) ? value.length : value === undefined ? 0 : 1)

function causeOf(field: string, value: unknown, origin: Origin): Cause {
  const by = origin.by === 'preset' ? `preset "${originLabel(origin)}" enforces` : 'presets enforce'
  return {
    rule: 'enforced',
    field,
    ...(value === undefined ? {} : { value }),
    reason: 'FieldValueForbidden',
    message: `is not what ${by}: another admission webhook has changed it since, or the preset is new`,
    suggestion: 'try again; if that fails, remove the rule by which the other webhook changes this field',
  }
}

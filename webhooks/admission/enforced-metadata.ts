import type { Cause, Origin } from '../../api/cause.ts'
import { pathKeys } from '../../api/path.ts'
import { isRecord } from '../../api/schema.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { firstWarnings } from '../../presets/abridge.ts'
import { originLabel } from '../../presets/source.ts'
import type { RecordedOrigins } from './update.ts'

type Metadata = { readonly [key: string]: unknown }

/** A label or annotation that a preset enforces, with its stored value. */
interface Enforced {
  readonly path: string
  readonly field: 'labels' | 'annotations'
  readonly key: string
  readonly value: string
  readonly origin: Origin
}

function enforcedIn({ metadata }: VirtualMachine, { enforced }: RecordedOrigins): readonly Enforced[] {
  return [...enforced].flatMap(([path, origin]): readonly Enforced[] => {
    const [, field, last] = pathKeys(path)
    if (field !== 'labels' && field !== 'annotations') return []
    const [values = {}, key] = [metadata[field], String(last)]
    const value = Object.hasOwn(values, key) ? values[key] : undefined
    return value === undefined ? [] : [{ path, field, key, value, origin }]
  })
}

const valueIn = (metadata: Metadata, field: string, key: string): unknown => {
  const values = metadata[field]
  return isRecord(values) && Object.hasOwn(values, key) ? values[key] : undefined
}

/**
 * Restores labels and annotations that presets enforce. As in the spec, a manifest may omit them, or contain the user's
 * value that the preset overrode; any other value is refused.
 * @param sent the metadata of the update
 */
export function restoreEnforced(
  sent: Metadata,
  stored: VirtualMachine,
  origins: RecordedOrigins,
): { readonly metadata: Metadata; readonly warnings: readonly string[] } | { readonly causes: readonly Cause[] } {
  const changed = enforcedIn(stored, origins).filter(({ field, key, value }) => valueIn(sent, field, key) !== value)
  const isRefused = ({ path, field, key }: Enforced): boolean => {
    const value = valueIn(sent, field, key)
    return value !== undefined && !origins.isOverridden(path, value)
  }
  const refused = changed.filter(isRefused)
  if (refused.length > 0) return { causes: refused.map((one) => causeOf(one, valueIn(sent, one.field, one.key))) }
  // Each map is copied once, not for each restored key: a user can send a map of any size.
  const restored = [...Map.groupBy(changed, ({ field }) => field)].map(([field, values]) => {
    const others = sent[field]
    const enforced = Object.fromEntries(values.map(({ key, value }) => [key, value]))
    return [field, { ...(isRecord(others) ? others : {}), ...enforced }] as const
  })
  return {
    metadata: { ...sent, ...Object.fromEntries(restored) },
    warnings: remainWarnings(changed.map(({ path, origin }) => [path, origin])),
  }
}

/** Warnings about values that an update states otherwise although presets enforce them. */
export const remainWarnings = (changed: readonly (readonly [path: string, origin: Origin])[]): string[] =>
  firstWarnings(
    changed,
    ([path, origin]) => `${path} remains: preset "${originLabel(origin)}" enforces it`,
    (count) => `${count} more values that presets enforce remain`,
  )

/** Causes for each label and annotation that a preset enforces and that is not as stored. */
export const enforcedCauses = (sent: unknown, stored: VirtualMachine, origins: RecordedOrigins): Cause[] =>
  enforcedIn(stored, origins).flatMap((one) => {
    const value = isRecord(sent) ? valueIn(sent, one.field, one.key) : undefined
    return value === one.value ? [] : [causeOf(one, value)]
  })

const causeOf = ({ path, value, origin }: Enforced, sent: unknown): Cause => ({
  rule: 'enforced-metadata',
  field: path,
  ...(sent === undefined ? {} : { value: sent }),
  reason: sent === undefined ? 'FieldValueForbidden' : 'FieldValueInvalid',
  message: `must remain ${JSON.stringify(value)}: preset "${originLabel(origin)}" enforces it`,
})

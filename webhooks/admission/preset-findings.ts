import type { Cause } from '../../api/cause.ts'
import type { Preset, PresetFields } from '../../api/preset.ts'
import { isRecord } from '../../api/schema.ts'
import { neverValid } from '../../completion/rules/preset.ts'
import type { Inventory } from '../../inventory/inventory.ts'
import {
  checkPreset,
  maxNamespaceSize,
  namespaceTooLarge,
  plainDomain,
  sizeOf,
  validConditions,
} from '../../presets/check.ts'
import { compilePreset, isClusterPreset, type CompiledPreset } from '../../presets/compile.ts'
import { needsGrant } from '../../presets/grant.ts'
import { findOverlaps, overlapWarning } from '../../presets/overlap.ts'
import { virtualMachineStructure, type ObjectStructure } from '../../presets/structure.ts'
import type { AdmissionCaches } from './caches.ts'
import type { PendingPresets } from './pending-presets.ts'
import type { Permissions } from './permission.ts'
import type { AdmissionRequest } from './request.ts'

/**
 * The findings about a preset beyond its schema. It is compared with other presets and with the nodes only if it is
 * valid, and if `isCompared`.
 */
export function checkPresetAmong(
  inventory: Pick<AdmissionCaches, 'candidates' | 'quarantined' | 'capabilities' | 'pendingPresets'>,
  preset: Preset,
  { mayGrantHost }: Permissions,
  isCompared: boolean,
): { readonly causes: readonly Cause[]; readonly warnings: readonly string[] } {
  const { causes, warnings } = checkPreset(preset)
  if (needsGrant(preset) && !mayGrantHost) return { causes: [...causes, grantMissing], warnings }
  if (causes.length > 0) return { causes, warnings }
  const stored = [...inventory.candidates.all(), ...inventory.quarantined.values()]
  const tooMuch = namespaceSizeCauses(preset, stored, inventory.pendingPresets)
  if (tooMuch.length > 0) return { causes: tooMuch, warnings }
  if (!isCompared) return { causes, warnings }
  return {
    causes,
    warnings: [
      ...warnings,
      ...overlapWarningsOf(preset, inventory),
      ...neverValid(plainDomain(preset.spec.domain ?? {}), inventory.capabilities().published),
    ],
  }
}

/**
 * Presets that several replicas admit at the same moment can exceed the limit together, each by what it admits itself.
 * @param stored every preset in the cache: one that is not applied takes as much memory
 */
export function namespaceSizeCauses(
  {
    kind,
    metadata: { name, namespace },
    spec,
  }: Pick<Preset, 'metadata'> & { readonly kind: string; readonly spec: PresetFields },
  stored: Iterable<Pick<CompiledPreset, 'id' | 'namespace' | 'size'>>,
  pending: Pick<PendingPresets, 'sizes'>,
): Cause[] {
  if (isClusterPreset(kind)) return []
  const own = sizeOf(spec, validConditions(spec))
  const sizes = new Map(pending.sizes(namespace ?? ''))
  for (const { id, namespace: of, size } of stored)
    if (of === namespace) sizes.set(id, Math.max(size, sizes.get(id) ?? 0))
  const id = `${namespace}/${name}`
  const before = sizes.get(id) ?? 0
  const value = sizes
    .set(id, own)
    .values()
    .reduce((sum, size) => sum + size, 0)
  // A preset that does not grow is accepted: nobody could change its labels, or make it smaller in steps.
  if (value <= maxNamespaceSize || own <= before) return []
  const { message, ...cause } = namespaceTooLarge(namespace ?? '', value, kind)
  return [{ ...cause, message: `${message}; this one counts ${own}` }]
}

/** What the preset of an admitted request counts in its namespace. */
export function sizeOfPreset({ namespace, object }: AdmissionRequest): number {
  const spec = isRecord(object) && isRecord(object['spec']) ? object['spec'] : {}
  return namespace === '' ? 0 : sizeOf(spec, validConditions(spec))
}

/** The number of overlaps that an author will read. */
const maxOverlaps = 5

function overlapWarningsOf(preset: Preset, { candidates }: Pick<Inventory, 'candidates'>): string[] {
  const compiled = compilePreset(preset)
  return 'preset' in compiled ? overlapWarnings(compiled.preset, candidates.all(), virtualMachineStructure()) : []
}

/** Names other presets that could disagree with this one. */
export function overlapWarnings(
  preset: CompiledPreset,
  others: Iterable<CompiledPreset>,
  structure: ObjectStructure,
): string[] {
  const { overlaps, isComplete } = findOverlaps(preset, others, structure, maxOverlaps)
  return [
    ...overlaps.map(overlapWarning),
    ...(isComplete ? [] : ['may disagree with more presets: not all were compared']),
  ]
}

const grantMissing: Cause = {
  rule: 'grant-host',
  field: 'spec.domain',
  reason: 'FieldValueForbidden',
  message:
    'has fields that reach the host: writing them requires the verb "grant-host" on clustervirtualmachinepresets.virtset.io',
}

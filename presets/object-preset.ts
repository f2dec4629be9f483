import type { Cause } from '../api/cause.ts'
import { parseObjectPreset, targetText, type ObjectPreset } from '../api/object-preset.ts'
import { nearest } from '../api/nearest.ts'
import {
  compileWith,
  quarantine,
  unreadable,
  withoutSpec,
  type CompiledPreset,
  type QuarantinedPreset,
} from './compile.ts'
import { checkObjectPreset } from './object-check.ts'
import type { Kinds, ObjectKind } from './object-kind.ts'
import { restrictedCause, restrictedUses } from './restricted.ts'

/** A preset for objects of any kind, ready to be merged, with the kind that it is for. */
export interface CompiledObjectPreset {
  readonly preset: CompiledPreset
  readonly kind: ObjectKind
  readonly warnings: readonly string[]
}

/**
 * Compiles a preset for objects from the watch cache or a file. A broken preset is returned as quarantined, with its
 * target if that can be read; this never throws.
 * @param value a preset as JSON
 * @param restricted the paths that an ObjectPreset must not set. That an author may set them in a ClusterObjectPreset
 * is checked when it is written
 */
export function compileObjectPreset(
  value: unknown,
  kinds: Kinds,
  restricted: readonly string[] = [],
): CompiledObjectPreset | { readonly quarantined: QuarantinedPreset; readonly target?: string } {
  try {
    const parsed = parseObjectPreset(value)
    if ('causes' in parsed) return { quarantined: quarantine(value, parsed.causes) }
    const { preset } = parsed
    const target = targetText(preset.spec.target)
    const found = kindOf(preset, kinds)
    if ('causes' in found) return { quarantined: quarantine(value, found.causes), target }
    const { causes: faults, warnings } = checkObjectPreset(preset, found.kind)
    const causes = [...faults, ...restrictedCauses(preset, restricted, found.kind)]
    if (causes.length > 0) return { quarantined: quarantine(value, causes), target }
    return { preset: compileWith(preset, structuredClone(preset.spec.object ?? {})), kind: found.kind, warnings }
  } catch (error) {
    return { quarantined: quarantine(withoutSpec(value), [unreadable(error)]) }
  }
}

const restrictedCauses = (
  { kind, spec }: ObjectPreset,
  restricted: readonly string[],
  { structure }: ObjectKind,
): readonly Cause[] =>
  kind === 'ClusterObjectPreset'
    ? []
    : restrictedUses(spec, restricted, structure).map((use) =>
        restrictedCause(use, 'is restricted by the PresetTarget: only a ClusterObjectPreset can set or remove it'),
      )

function kindOf({ spec: { target } }: ObjectPreset, kinds: Kinds): ReturnType<NonNullable<ReturnType<Kinds['get']>>> {
  const name = targetText(target)
  const read = kinds.get(name)
  if (read === undefined) return { causes: [unknownTarget(name, [...kinds.keys()])] }
  const found = read()
  if ('kind' in found) return found
  return {
    causes: found.causes.map((cause) =>
      cause.reason === 'FieldValueNotFound' ? { ...cause, field: 'spec.target' } : unusable(name, cause),
    ),
  }
}

function unknownTarget(name: string, known: readonly string[]): Cause {
  const near = nearest(name, known)
  return {
    rule: 'preset-target',
    field: 'spec.target',
    reason: 'FieldValueNotFound',
    message: `there is no schema of ${name}`,
    ...(near === undefined ? {} : { suggestion: `did you mean ${near}?` }),
  }
}

const unusable = (name: string, { field, message }: Cause): Cause => ({
  rule: 'preset-target',
  field: 'spec.target',
  reason: 'FieldValueInvalid',
  message: `the schema of ${name} cannot be used: ${field === '' ? 'it' : field} ${message}`,
})

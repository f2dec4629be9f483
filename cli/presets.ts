import type { Cause } from '../api/cause.ts'
import { renderCause } from '../api/refusal.ts'
import { isRecord } from '../api/schema.ts'
import { createCandidates, type Candidates } from '../presets/candidates.ts'
import { compilePreset, type QuarantinedPreset } from '../presets/compile.ts'
import type { Manifest } from './input.ts'

/** The presets that a completion sees, and what is broken among them. */
export interface PresetSource {
  readonly candidates: Candidates
  readonly quarantined: readonly QuarantinedPreset[]
}

const presetKinds: readonly unknown[] = ['VirtualMachinePreset', 'ClusterVirtualMachinePreset']

export const isPreset = (object: Manifest): boolean => presetKinds.includes(object['kind'])

/** Those among the objects that are presets; one without a namespace is in `namespace`. */
export function presetsOf(objects: readonly Manifest[], namespace: string): PresetSource {
  const candidates = createCandidates()
  const quarantined: QuarantinedPreset[] = []
  for (const object of objects.filter(isPreset)) {
    const compiled = compilePreset(inNamespace(object, namespace))
    if ('preset' in compiled) candidates.set(compiled.preset)
    else quarantined.push(compiled.quarantined)
  }
  return { candidates, quarantined }
}

export const quarantineWarning = ({ id, causes }: QuarantinedPreset): string =>
  `preset "${id}" is broken and takes no part: ${causes.map(causeLine).join('; ')}`

const causeLine = (cause: Cause): string => `${cause.field}: ${renderCause(cause)}`

export function inNamespace(object: Manifest, namespace: string): Manifest {
  const metadata = isRecord(object['metadata']) ? object['metadata'] : {}
  const isClusterWide = object['kind'] === 'ClusterVirtualMachinePreset'
  return isClusterWide || typeof metadata['namespace'] === 'string'
    ? object
    : { ...object, metadata: { ...metadata, namespace } }
}

import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { renderCause } from '../api/refusal.ts'
import { isRecord } from '../api/schema.ts'
import { createCandidates, type Candidates, type Namespace } from '../presets/candidates.ts'
import { compilePreset, type CompiledPreset, type QuarantinedPreset } from '../presets/compile.ts'
import type { Manifest } from './input.ts'

/** What a completion in one namespace sees beside the VM. */
export interface Surrounding {
  readonly namespace: Namespace
  readonly presets: Candidates
  readonly quarantined: readonly QuarantinedPreset[]
  /** Who asks, as an admission request has it; absent where nobody knows. */
  readonly userInfo?: unknown
  /** Ids of the presets that the VM's user may be exempt from; undefined where there is none. */
  readonly exempt: (machine: VirtualMachine) => Promise<ReadonlySet<string>> | undefined
}

export interface Surroundings {
  readonly of: (namespace: string) => Promise<Surrounding>
}

export interface Presets {
  readonly compiled: ReadonlyMap<string, CompiledPreset>
  readonly candidates: Candidates
  readonly quarantined: readonly QuarantinedPreset[]
}

const presetKinds: readonly unknown[] = ['VirtualMachinePreset', 'ClusterVirtualMachinePreset']

export const isPreset = (object: Manifest): boolean => presetKinds.includes(object['kind'])

/** Those among the objects that are presets, a later one in the place of an earlier one by its name; one without a namespace is in `namespace`. */
export function presetsOf(objects: readonly Manifest[], namespace: string): Presets {
  const compiled = new Map<string, CompiledPreset>()
  const quarantined = new Map<string, QuarantinedPreset>()
  for (const object of objects.filter(isPreset)) {
    const one = compilePreset(inNamespace(object, namespace))
    if ('preset' in one) {
      compiled.set(one.preset.id, one.preset)
      quarantined.delete(one.preset.id)
    } else {
      compiled.delete(one.quarantined.id)
      quarantined.set(one.quarantined.id, one.quarantined)
    }
  }
  return { compiled, candidates: createCandidates(compiled.values()), quarantined: [...quarantined.values()] }
}

/** Nothing but files: namespaces have their name for a label, and those given; nobody is exempt from anything. */
export const offline = (
  { candidates, quarantined }: Pick<Presets, 'candidates' | 'quarantined'>,
  labels: { readonly [key: string]: string },
): Surroundings => ({
  of: (name) =>
    Promise.resolve({
      namespace: { name, labels: { ...labels, 'kubernetes.io/metadata.name': name } },
      presets: candidates,
      quarantined,
      exempt: () => undefined,
    }),
})

export const quarantineWarning = ({ id, causes }: QuarantinedPreset): string =>
  `preset "${id}" is broken and takes no part: ${causes.map(causeLine).join('; ')}`

export const causeLine = (cause: Cause): string => `${cause.field}: ${renderCause(cause)}`

export function inNamespace(object: Manifest, namespace: string): Manifest {
  const metadata = isRecord(object['metadata']) ? object['metadata'] : {}
  const isClusterWide = object['kind'] === 'ClusterVirtualMachinePreset'
  return isClusterWide || typeof metadata['namespace'] === 'string'
    ? object
    : { ...object, metadata: { ...metadata, namespace } }
}

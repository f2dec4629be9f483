import type { Preset, PresetSpec } from '../api/preset.ts'
import { createCandidates, type Candidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'

/** A cluster preset, or with a namespace a namespaced one; it selects every VM. */
export const preset = (name: string, spec: Partial<PresetSpec>, namespace?: string): Preset => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: namespace === undefined ? 'ClusterVirtualMachinePreset' : 'VirtualMachinePreset',
  metadata: { name, uid: name, ...(namespace === undefined ? {} : { namespace }) },
  spec: { selector: {}, ...spec },
})

export const candidatesOf = (...presets: readonly Preset[]): Candidates =>
  createCandidates(
    presets.map((one) => {
      const compiled = compilePreset(one)
      if (!('preset' in compiled)) throw new Error(`preset ${one.metadata.name} does not compile`)
      return compiled.preset
    }),
  )

import type { VirtualMachine } from '../../api/virtual-machine.ts'
import type { Preset, PresetSpec } from '../../api/preset.ts'
import { createCandidates } from '../../presets/candidates.ts'
import type { CompiledPreset } from '../../presets/compile.ts'
import { compileParsed } from '../../presets/compile.ts'
import type { Injection, InjectOptions } from '../../presets/inject.ts'
import { inject } from '../../presets/inject.ts'
import { smallStructure } from './small-domain.ts'

type Given = { readonly [key: string]: unknown }

/** A VM of the small domain, in namespace `team`. */
export const vmWith = (
  domain: Given,
  others: { spec?: Given; labels?: Given; annotations?: Given } = {},
): VirtualMachine =>
  ({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: {
      name: 'vm',
      namespace: 'team',
      ...(others.labels === undefined ? {} : { labels: others.labels }),
      ...(others.annotations === undefined ? {} : { annotations: others.annotations }),
    },
    spec: { domain, ...others.spec },
  }) as VirtualMachine

export const team = { name: 'team', labels: { 'kubernetes.io/metadata.name': 'team' } }

/** A preset in namespace `team` that selects every VM, unless `spec` changes that. */
export const preset = (name: string, spec: Given, namespace = 'team'): CompiledPreset =>
  compileParsed({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { name, namespace },
    spec: { selector: {}, ...spec } as PresetSpec,
  } satisfies Preset)

export const clusterPreset = (name: string, spec: Given): CompiledPreset =>
  compileParsed({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'ClusterVirtualMachinePreset',
    metadata: { name },
    spec: { selector: {}, ...spec } as PresetSpec,
  } satisfies Preset)

export const injectSmall = (
  vm: VirtualMachine,
  presets: readonly CompiledPreset[],
  options: Partial<InjectOptions> = {},
): Injection =>
  inject(vm, { presets: createCandidates(presets), namespace: team, structure: smallStructure, ...options })

/** The resulting domain, or the causes if there are any. */
export function domainOf(injection: Injection): unknown {
  return injection.causes.length > 0
    ? injection.causes.map(({ field, message }) => `${field}: ${message}`)
    : injection.vm.spec.domain
}

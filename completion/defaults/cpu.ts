import { machineType } from '../capabilities.ts'
import { fill, rule, type Rule } from './rule.ts'

export const cpuModel = rule(
  'cpu-model',
  'If no CPU model is set, the machine type determines it: `qemu64` on x86_64, with an exact match and no check.',
  ({ cpu, os }, { capabilities }) => {
    if ((cpu?.mode ?? 'custom') !== 'custom' || cpu?.model?.value !== undefined) return undefined
    const model = machineType(capabilities, os?.type?.machine ?? '')?.cpu
    if (model === undefined) return undefined
    return { cpu: { mode: 'custom', match: 'exact', check: 'none', model: { fallback: 'forbid', value: model } } }
  },
)

export const cpuMatch = rule(
  'cpu-match',
  'A named model is matched exactly; libvirt may fall back to another one.',
  ({ cpu }) =>
    cpu && (cpu.mode ?? 'custom') === 'custom' && cpu.model
      ? { cpu: { mode: 'custom', match: 'exact', model: { fallback: 'allow' } } }
      : undefined,
)

export const cpuCheck = rule(
  'cpu-check',
  'The check is `partial` for mode `host-model`, and under KVM for a named model. It is `none` for a named model under emulation, and for modes `host-passthrough` and `maximum`.',
  ({ cpu, type }) => {
    if (!cpu) return undefined
    if (cpu.mode === 'host-passthrough' || cpu.mode === 'maximum') return { cpu: { check: 'none' } }
    if (cpu.mode === 'host-model') return { cpu: { check: 'partial' } }
    return cpu.model ? { cpu: { check: type === 'kvm' ? 'partial' : 'none' } } : undefined
  },
)

export const cpuMigratable = rule(
  'cpu-migratable',
  'A CPU of mode `host-passthrough` omits features that would prevent migration.',
  ({ cpu }) => (cpu?.mode === 'host-passthrough' ? { cpu: { migratable: true } } : undefined),
)

export const cpuFeaturePolicy: Rule = {
  name: 'cpu-feature-policy',
  description: 'The policy of a listed CPU feature is `require`.',
  apply: ({ cpu }) => (cpu?.features ?? []).map((one) => fill(one, { policy: 'require' })),
}

export const cpuTopology = rule(
  'cpu-topology',
  'A socket has one die, and a die has one cluster.',
  ({ cpu }) => cpu?.topology && { cpu: { topology: { dies: 1, clusters: 1 } } },
)

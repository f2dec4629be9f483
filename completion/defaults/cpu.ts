import { machineType } from '../capabilities.ts'
import { fill, rule, type Rule } from './rule.ts'

export const cpuModel = rule(
  'cpu-model',
  'If no CPU is set, the machine type decides: `qemu64` on x86_64, exactly and without a check.',
  ({ cpu, os }, { capabilities }) => {
    if ((cpu?.mode ?? 'custom') !== 'custom' || cpu?.model?.value !== undefined) return undefined
    const model = machineType(capabilities, os?.type?.machine ?? '')?.cpu
    if (model === undefined) return undefined
    return { cpu: { mode: 'custom', match: 'exact', check: 'none', model: { fallback: 'forbid', value: model } } }
  },
)

export const cpuMatch = rule(
  'cpu-match',
  'A named model is matched exactly; another will do in its place.',
  ({ cpu }) =>
    cpu && (cpu.mode ?? 'custom') === 'custom' && cpu.model
      ? { cpu: { mode: 'custom', match: 'exact', model: { fallback: 'allow' } } }
      : undefined,
)

export const cpuCheck = rule(
  'cpu-check',
  'Under KVM, a named model and the one of the host are checked in part; under emulation, a named model is not, nor is the host’s own CPU anywhere.',
  ({ cpu, type }) => {
    if (!cpu) return undefined
    if (cpu.mode === 'host-passthrough' || cpu.mode === 'maximum') return { cpu: { check: 'none' } }
    if (cpu.mode === 'host-model') return { cpu: { check: 'partial' } }
    return cpu.model ? { cpu: { check: type === 'kvm' ? 'partial' : 'none' } } : undefined
  },
)

export const cpuMigratable = rule(
  'cpu-migratable',
  'A CPU passed through leaves out what would keep the VM from migrating.',
  ({ cpu }) => (cpu?.mode === 'host-passthrough' ? { cpu: { migratable: true } } : undefined),
)

export const cpuFeaturePolicy: Rule = {
  name: 'cpu-feature-policy',
  description: 'A feature of the CPU that is named is required.',
  apply: ({ cpu }) => (cpu?.features ?? []).map((one) => fill(one, { policy: 'require' })),
}

export const cpuTopology = rule(
  'cpu-topology',
  'A socket has one die, a die has one cluster.',
  ({ cpu }) => cpu?.topology && { cpu: { topology: { dies: 1, clusters: 1 } } },
)

import { rule } from './rule.ts'

export const vcpuCount = rule('vcpu-count', 'A VM of whose CPUs nothing is said has one.', ({ vcpu }) =>
  vcpu ? undefined : { vcpu: { value: 1 } },
)

export const vcpuPlacement = rule(
  'vcpu-placement',
  'Virtual CPUs run where `cpuset` says; where numad places memory, and nothing else is said, they follow it.',
  ({ vcpu, numatune, cputune = {} }) => {
    const { vcpupins, emulatorpin, iothreadpins } = cputune
    const isPlaced = vcpu?.cpuset !== undefined || vcpupins?.length || emulatorpin || iothreadpins?.length
    return { vcpu: { placement: numatune?.memory?.placement === 'auto' && !isPlaced ? 'auto' : 'static' } }
  },
)

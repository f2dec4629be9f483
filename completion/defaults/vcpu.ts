import { rule } from './rule.ts'

export const vcpuCount = rule('vcpu-count', 'A VM that does not set `vcpu` has one virtual CPU.', ({ vcpu }) =>
  vcpu ? undefined : { vcpu: { value: 1 } },
)

export const vcpuPlacement = rule(
  'vcpu-placement',
  'The placement of virtual CPUs is `static`: they run on the CPUs in `cpuset`. If numad places memory and no CPUs are set, it is `auto`.',
  ({ vcpu, numatune, cputune = {} }) => {
    const { vcpupins, emulatorpin, iothreadpins } = cputune
    const isPlaced = vcpu?.cpuset !== undefined || vcpupins?.length || emulatorpin || iothreadpins?.length
    return { vcpu: { placement: numatune?.memory?.placement === 'auto' && !isPlaced ? 'auto' : 'static' } }
  },
)

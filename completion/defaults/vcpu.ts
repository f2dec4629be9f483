import { rule } from './rule.ts'

export const vcpuCount = rule('vcpu-count', 'A VM has one virtual CPU.', () => ({ vcpu: { value: 1 } }))

export const vcpuPlacement = rule(
  'vcpu-placement',
  'Virtual CPUs run where `cpuset` says; where numad places memory, and nothing else is said, they follow it.',
  ({ vcpu, numatune }) => ({
    vcpu: { placement: numatune?.memory?.placement === 'auto' && vcpu?.cpuset === undefined ? 'auto' : 'static' },
  }),
)

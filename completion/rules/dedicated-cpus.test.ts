import { testRule } from '../../test/rule-table.ts'

const message = 'must not be set with spec.dedicatedCPUs: the kubelet chooses the CPUs, and the launcher pins to them'

testRule('dedicated-cpus', [
  {
    dedicatedCPUs: true,
    refused: { cputune: { vcpupins: [{ vcpu: 0, cpuset: '1' }] } },
    causes: [`spec.domain.cputune.vcpupins: Forbidden: ${message}`],
    accepted: {},
  },
  {
    dedicatedCPUs: true,
    refused: { cputune: { emulatorpin: { cpuset: '1' } } },
    causes: [`spec.domain.cputune.emulatorpin: Forbidden: ${message}`],
    accepted: { cputune: { shares: 100 } },
  },
  {
    dedicatedCPUs: true,
    refused: { vcpu: { value: 1, cpuset: '1' } },
    causes: [`spec.domain.vcpu.cpuset: Forbidden: ${message}`],
    accepted: { vcpu: { value: 1 } },
  },
])

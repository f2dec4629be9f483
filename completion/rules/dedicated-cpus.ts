import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { forbidEach } from './finding.ts'
import type { Rule } from './rule.ts'

const message = 'must not be set with spec.dedicatedCPUs: the kubelet chooses the CPUs, and the launcher pins to them'

const pinned = (dedicatedCPUs: boolean): VirtualMachineSpec => ({
  domain: { vcpu: { value: 1 }, cputune: { vcpupins: [{ vcpu: 0, cpuset: '1' }] } },
  dedicatedCPUs,
})

export const dedicatedCpus: Rule = {
  id: 'dedicated-cpus',
  description: 'With `dedicatedCPUs`, the domain must not name CPUs of the node itself.',
  about: ['vcpupins', 'emulatorpin', 'cpuset'],
  *check({ spec, domain: { cputune = {}, vcpu = {} } }) {
    if (spec.dedicatedCPUs !== true) return
    yield* forbidEach(cputune, 'spec.domain.cputune', ['vcpupins', 'emulatorpin'], message)
    yield* forbidEach(vcpu, 'spec.domain.vcpu', ['cpuset'], message)
  },
  example: { breaks: pinned(true), holds: pinned(false) },
}

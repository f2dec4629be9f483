import { machineType } from '../capabilities.ts'
import { nearest } from '../../api/nearest.ts'
import { missingCapability, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

const domainType: Rule = {
  id: 'domain-type',
  description: 'The accelerator of a domain must be one that QEMU on the node supports.',
  *check({ domain: { type }, capabilities: { accelerators } }) {
    const known = Object.keys(accelerators)
    if (type === undefined) yield required('spec.domain.type', `must be set: ${known.join(' or ')}`)
    else if (!known.includes(type)) {
      const message = `QEMU on this node has no such accelerator; it has ${known.join(', ')}`
      yield missingCapability(
        type === 'kvm' ? 'KVM' : `accelerator ${type}`,
        unsupported('spec.domain.type', type, message),
      )
    }
  },
  example: example({ type: 'hvf' }, { type: 'kvm' }),
}

const architectures = ['x86_64', 'i686']

const osType: Rule = {
  id: 'os-type',
  description: 'A domain must run an unmodified operating system (`hvm`) for x86 on a machine type that QEMU supports.',
  *check({ domain: { os }, capabilities }) {
    const { type } = os ?? {}
    if (type?.os === undefined) yield required('spec.domain.os.type.os', 'must be set', 'os: {type: {os: hvm}}')
    if (type?.arch !== undefined && !architectures.includes(type.arch)) {
      yield unsupported(
        'spec.domain.os.type.arch',
        type.arch,
        `QEMU on this node emulates ${architectures.join(' and ')}`,
      )
    }
    if (type?.machine !== undefined && machineType(capabilities, type.machine) === undefined) {
      const names = capabilities.machines.flatMap(({ name, alias }) => (alias === undefined ? [name] : [alias, name]))
      const near = nearest(type.machine, names)
      const message = 'QEMU on this node has no such machine type; q35 and pc are aliases for the newest versions'
      const suggestion = near && `did you mean ${JSON.stringify(near)}?`
      yield missingCapability(
        `machine type ${type.machine}`,
        unsupported('spec.domain.os.type.machine', type.machine, message, suggestion),
      )
    }
  },
  example: example({ os: { type: { os: 'hvm', machine: 'q53' } } }, { os: { type: { os: 'hvm', machine: 'q35' } } }),
}

const launchSecurity: Rule = {
  id: 'launch-security',
  description: 'Launch security must be of a type for x86, with a policy.',
  about: ['launchSecurity'],
  *check({ domain: { launchSecurity } }) {
    if (!launchSecurity) return
    const { type, policy } = launchSecurity
    if (type === undefined) yield required('spec.domain.launchSecurity.type', 'must be set: sev or sev-snp')
    else if (type === 's390-pv')
      yield unsupported('spec.domain.launchSecurity.type', type, 'is only supported on s390x')
    else if (policy === undefined) yield required('spec.domain.launchSecurity.policy', `must be set for type ${type}`)
  },
  example: example(
    { launchSecurity: { type: 's390-pv' } },
    { launchSecurity: { type: 'sev', policy: '0x0001', cbitpos: 47, reducedPhysBits: 1 } },
  ),
}

export const machineRules: readonly Rule[] = [domainType, osType, launchSecurity]

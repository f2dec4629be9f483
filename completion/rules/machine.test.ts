import { emulatedCapabilities, olderCapabilities } from '../../test/node-profile.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'

testRule('domain-type', [
  {
    base: { memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm' } } },
    refused: {},
    causes: ['spec.domain.type: Required value: must be set: kvm or qemu'],
    accepted: { type: 'kvm' },
  },
  {
    refused: { type: 'hvf' },
    causes: [
      'spec.domain.type: Unsupported value: "hvf": QEMU on this node has no such accelerator; it has kvm, qemu [node without accelerator hvf]',
    ],
    accepted: { type: 'kvm' },
  },
  {
    refused: { type: 'kvm' },
    causes: [
      'spec.domain.type: Unsupported value: "kvm": QEMU on this node has no such accelerator; it has qemu [node without KVM]',
    ],
    accepted: { type: 'qemu' },
    capabilities: emulatedCapabilities,
  },
])

testRule('os-type', [
  {
    refused: { os: { type: { machine: 'pc' } } },
    causes: ['spec.domain.os.type.os: Required value: must be set; os: {type: {os: hvm}}'],
    accepted: { os: { type: { os: 'hvm', machine: 'pc' } } },
  },
  {
    refused: { os: { type: { os: 'hvm', arch: 'aarch64' } } },
    causes: ['spec.domain.os.type.arch: Unsupported value: "aarch64": QEMU on this node emulates x86_64 and i686'],
    accepted: { os: { type: { os: 'hvm', arch: 'i686' } } },
  },
  {
    refused: { os: { type: { os: 'hvm', machine: 'q53' } } },
    causes: [
      'spec.domain.os.type.machine: Unsupported value: "q53": QEMU on this node has no such machine type; q35 and pc are aliases for the newest versions; did you mean "q35"? [node without machine type q53]',
    ],
    accepted: { os: { type: { os: 'hvm', machine: 'q35' } } },
  },
  {
    refused: { os: { type: { os: 'hvm', machine: 'raspberry' } } },
    causes: [
      'spec.domain.os.type.machine: Unsupported value: "raspberry": QEMU on this node has no such machine type; q35 and pc are aliases for the newest versions [node without machine type raspberry]',
    ],
    accepted: { os: { type: { os: 'hvm', machine: 'pc' } } },
  },
  {
    refused: { os: { type: { os: 'hvm', machine: 'pc-q35-10.0' } } },
    causes: [
      'spec.domain.os.type.machine: Unsupported value: "pc-q35-10.0": QEMU on this node has no such machine type; q35 and pc are aliases for the newest versions; did you mean "pc-q35-3.0"? [node without machine type pc-q35-10.0]',
    ],
    accepted: { os: { type: { os: 'hvm', machine: 'pc-q35-9.2' } } },
    capabilities: olderCapabilities('10.0'),
  },
])

const sev = { type: 'sev', cbitpos: 47, reducedPhysBits: 1 } as const

testRule('launch-security', [
  {
    refused: { launchSecurity: { cbitpos: 47 } },
    causes: ['spec.domain.launchSecurity.type: Required value: must be set: sev or sev-snp'],
    accepted: { launchSecurity: { ...sev, policy: '0x0001' } },
  },
  {
    refused: { launchSecurity: { type: 's390-pv' } },
    causes: ['spec.domain.launchSecurity.type: Unsupported value: "s390-pv": is only supported on s390x'],
    accepted: { launchSecurity: { ...sev, policy: '0x0001' } },
  },
  {
    refused: { launchSecurity: sev },
    causes: ['spec.domain.launchSecurity.policy: Required value: must be set for type sev'],
    accepted: { launchSecurity: { ...sev, policy: '0x0001' } },
  },
])

testSilent('launch-security', [{}])

import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import { bundledCapabilities } from '../capabilities.ts'

type Cpu = NonNullable<Domain['cpu']>

const cpu = (cpu: Cpu, type: 'kvm' | 'qemu' = 'kvm'): Domain => ({ type, cpu })

testRule('cpu-mode', [
  {
    refused: cpu({ mode: 'host-passthrough' }, 'qemu'),
    causes: [
      'spec.domain.cpu.mode: Invalid value: "host-passthrough": requires KVM: emulation does not use the CPU of the node; type: kvm, or mode: maximum',
    ],
    accepted: cpu({ mode: 'host-passthrough' }),
  },
  {
    refused: cpu({ mode: 'host-passthrough' }, 'qemu'),
    causes: [
      'spec.domain.cpu.mode: Invalid value: "host-passthrough": requires KVM: emulation does not use the CPU of the node; type: kvm, or mode: maximum',
    ],
    accepted: cpu({ mode: 'maximum' }, 'qemu'),
  },
])

testRule('cpu-cache', [
  {
    refused: cpu({ mode: 'host-model', cache: { mode: 'emulate' } }),
    causes: ['spec.domain.cpu.cache.level: Invalid value: "": must be 3 for mode emulate'],
    accepted: cpu({ mode: 'host-model', cache: { mode: 'emulate', level: 3 } }),
  },
  {
    refused: cpu({ mode: 'host-model', cache: { mode: 'emulate', level: 2 } }),
    causes: ['spec.domain.cpu.cache.level: Invalid value: 2: must be 3 for mode emulate'],
    accepted: cpu({ mode: 'host-model', cache: { mode: 'disable' } }),
  },
  {
    refused: cpu({ mode: 'host-model', cache: { mode: 'passthrough' } }),
    causes: [
      'spec.domain.cpu.cache.mode: Invalid value: "passthrough": is only supported with cpu.mode host-passthrough and maximum',
    ],
    accepted: cpu({ mode: 'host-passthrough', cache: { mode: 'passthrough' } }),
  },
  {
    refused: cpu({ mode: 'custom', model: { value: 'qemu64' }, cache: { mode: 'passthrough' } }),
    causes: [
      'spec.domain.cpu.cache.mode: Invalid value: "passthrough": is only supported with cpu.mode host-passthrough and maximum',
    ],
    accepted: cpu({ mode: 'maximum', cache: { mode: 'passthrough' } }),
  },
  {
    refused: cpu({ mode: 'host-passthrough', cache: { mode: 'passthrough', level: 3 } }),
    causes: ['spec.domain.cpu.cache.level: Forbidden: must not be set for mode passthrough, which covers all levels'],
    accepted: cpu({ mode: 'host-passthrough', cache: { mode: 'passthrough' } }),
  },
])

testRule('cpu-address-bits', [
  {
    refused: cpu({ mode: 'host-model', maxphysaddr: { mode: 'emulate', bits: 53 } }),
    causes: ['spec.domain.cpu.maxphysaddr.bits: Invalid value: 53: must be at most 52, the limit of x86'],
    accepted: cpu({ mode: 'host-model', maxphysaddr: { mode: 'emulate', bits: 52 } }),
  },
  {
    refused: cpu({ mode: 'host-passthrough', maxphysaddr: { mode: 'passthrough', bits: 42 } }),
    causes: [
      'spec.domain.cpu.maxphysaddr.bits: Forbidden: must not be set for mode passthrough; did you mean "limit"?',
    ],
    accepted: cpu({ mode: 'host-passthrough', maxphysaddr: { mode: 'passthrough', limit: 42 } }),
  },
  {
    refused: cpu({ mode: 'host-model', maxphysaddr: { mode: 'emulate', bits: 42, limit: 42 } }),
    causes: ['spec.domain.cpu.maxphysaddr.limit: Forbidden: can only be set for mode passthrough'],
    accepted: cpu({ mode: 'host-model', maxphysaddr: { mode: 'emulate', bits: 42 } }),
  },
])

const feature = (...names: string[]): Cpu => ({ features: names.map((name) => ({ name })) })

testRule('cpu-features', [
  {
    refused: cpu(feature('vmx')),
    causes: [
      'spec.domain.cpu.model: Required value: must be set when cpu.features is set; or set cpu.mode, e.g. host-model',
    ],
    accepted: cpu({ mode: 'host-model', ...feature('vmx') }),
  },
  {
    refused: cpu(feature('vmx')),
    causes: [
      'spec.domain.cpu.model: Required value: must be set when cpu.features is set; or set cpu.mode, e.g. host-model',
    ],
    accepted: cpu({ model: { value: 'qemu64' }, ...feature('vmx') }),
  },
  {
    refused: cpu({ vendor: 'Intel' }),
    causes: [
      'spec.domain.cpu.model: Required value: must be set when cpu.vendor is set; or set cpu.mode, e.g. host-model',
    ],
    accepted: cpu({ vendor: 'Intel', model: { value: 'qemu64' } }),
  },
  {
    refused: cpu({ mode: 'host-model', vendor: 'Intel' }),
    causes: ['spec.domain.cpu.vendor: Forbidden: requires cpu.model'],
    accepted: cpu({ mode: 'host-model', features: [] }),
  },
  {
    refused: cpu({ mode: 'host-model', features: [{}] }),
    causes: ['spec.domain.cpu.features[0].name: Required value: must be set'],
    accepted: cpu({ mode: 'host-model', ...feature('vmx', 'svm') }),
  },
  {
    refused: cpu({ mode: 'host-model', ...feature('vmx', 'svm', 'vmx') }),
    causes: ['spec.domain.cpu.features[2].name: Duplicate value: "vmx": is listed more than once'],
    accepted: cpu({ mode: 'host-model', ...feature('vmx', 'svm') }),
  },
  {
    refused: cpu({ mode: 'host-model', migratable: true }),
    causes: ['spec.domain.cpu.migratable: Forbidden: can only be set for mode host-passthrough and maximum'],
    accepted: cpu({ mode: 'host-passthrough', migratable: false }),
  },
  {
    refused: cpu({ mode: 'custom', model: { value: 'qemu64' }, migratable: false }),
    causes: ['spec.domain.cpu.migratable: Forbidden: can only be set for mode host-passthrough and maximum'],
    accepted: cpu({ mode: 'maximum', migratable: true }),
  },
])

const topology = (count: number, topology: NonNullable<Cpu['topology']>): Domain => ({
  vcpu: { value: count },
  cpu: { topology },
})

testRule('cpu-topology', [
  {
    refused: topology(1, {}),
    causes: [
      'spec.domain.cpu.topology.sockets: Required value: must be set: a topology requires sockets, cores and threads',
      'spec.domain.cpu.topology.cores: Required value: must be set: a topology requires sockets, cores and threads',
      'spec.domain.cpu.topology.threads: Required value: must be set: a topology requires sockets, cores and threads',
    ],
    accepted: topology(1, { sockets: 1, cores: 1, threads: 1 }),
  },
  {
    refused: topology(4, { sockets: 2, cores: 2 }),
    causes: [
      'spec.domain.cpu.topology.threads: Required value: must be set: a topology requires sockets, cores and threads',
    ],
    accepted: topology(4, { sockets: 2, cores: 2, threads: 1 }),
  },
  {
    refused: topology(1, { sockets: 0, dies: 0, clusters: 0, cores: 0, threads: 0 }),
    causes: [
      'spec.domain.cpu.topology.sockets: Invalid value: 0: must be at least 1',
      'spec.domain.cpu.topology.dies: Invalid value: 0: must be at least 1',
      'spec.domain.cpu.topology.clusters: Invalid value: 0: must be at least 1',
      'spec.domain.cpu.topology.cores: Invalid value: 0: must be at least 1',
      'spec.domain.cpu.topology.threads: Invalid value: 0: must be at least 1',
    ],
    accepted: topology(1, { sockets: 1, dies: 1, cores: 1, threads: 1 }),
  },
  {
    refused: topology(4, { sockets: 2, dies: 2, cores: 2, threads: 1 }),
    causes: [
      'spec.domain.vcpu.value: Invalid value: 4: must be 8, the product of cpu.topology: 2 sockets × 2 dies × 1 clusters × 2 cores × 1 threads',
    ],
    accepted: topology(8, { sockets: 2, dies: 2, cores: 2, threads: 1 }),
  },
])

const q35 = (count: number, devices: Domain['devices'] = {}): Domain => ({
  vcpu: { value: count },
  os: { type: { os: 'hvm', machine: 'q35' } },
  features: { apic: {}, ioapic: { driver: 'qemu' } },
  devices,
})

testRule('vcpu-count', [
  {
    refused: { vcpu: { value: 2, current: 3 } },
    causes: ['spec.domain.vcpu.current: Invalid value: 3: must be at most value, 2'],
    accepted: { vcpu: { value: 2, current: 2 } },
  },
  {
    refused: { vcpu: { value: 2, current: 0 } },
    causes: ['spec.domain.vcpu.current: Invalid value: 0: must be at least 1'],
    accepted: { vcpu: { value: 2, current: 1 } },
  },
  {
    refused: { vcpu: { value: 256 } },
    causes: [
      'spec.domain.vcpu.value: Invalid value: 256: must be at most 255 for machine type pc-i440fx-10.0 [node without 256 CPUs for machine type pc-i440fx-10.0]',
    ],
    accepted: { vcpu: { value: 255 } },
  },
  {
    refused: q35(4097),
    causes: [
      'spec.domain.vcpu.value: Invalid value: 4097: must be at most 4096 for machine type pc-q35-10.0 [node without 4097 CPUs for machine type pc-q35-10.0]',
    ],
    accepted: q35(255),
  },
  {
    refused: q35(256),
    causes: [],
    accepted: q35(256, { iommu: { model: 'intel', driver: { intremap: true, eim: true } } }),
  },
  {
    refused: q35(256, { iommu: { model: 'intel', driver: { intremap: true, eim: false } } }),
    causes: [
      'spec.domain.vcpu.value: Invalid value: 256: must be at most 255 without an IOMMU in extended interrupt mode; devices.iommu: {model: intel, driver: {intremap: on, eim: on}}',
    ],
    accepted: q35(255, { iommu: { model: 'intel', driver: { intremap: true, eim: false } } }),
  },
])

const vcpus = (count: number, ...vcpus: NonNullable<NonNullable<Domain['vcpus']>['vcpus']>[number][]): Domain => ({
  vcpu: { value: count },
  vcpus: { vcpus: [...vcpus] },
})

testRule('vcpu-states', [
  {
    refused: vcpus(1, { id: 0, enabled: true }, { id: 1, enabled: true }),
    causes: ['spec.domain.vcpus.vcpus[1].id: Invalid value: 1: must be less than 1, the number of virtual CPUs'],
    accepted: vcpus(1, { id: 0, enabled: true }),
  },
  {
    refused: vcpus(2, { id: 1, enabled: true }),
    causes: [
      'spec.domain.vcpus.vcpus: Required value: must list CPU 0, which is always enabled; {id: 0, enabled: true}',
    ],
    accepted: vcpus(2),
  },
  {
    refused: vcpus(2, { id: 0, enabled: true, order: 2 }, { id: 1, enabled: true, order: 1 }),
    causes: ['spec.domain.vcpus.vcpus[0].order: Invalid value: 2: must be 1: CPU 0 is enabled first'],
    accepted: vcpus(2, { id: 0, enabled: true, order: 1 }, { id: 1, enabled: true, order: 2 }),
  },
  {
    refused: vcpus(2, { id: 0, enabled: true }, { enabled: true }),
    causes: ['spec.domain.vcpus.vcpus[1].id: Required value: must be set'],
    accepted: vcpus(2, { id: 0, enabled: true }, { id: 1, enabled: true }),
  },
  {
    refused: vcpus(
      3,
      { id: 0, enabled: true, order: 1 },
      { id: 1, enabled: true },
      { id: 2, enabled: false, hotpluggable: true },
    ),
    causes: ['spec.domain.vcpus.vcpus[1].order: Required value: must be set for all enabled CPUs or for none'],
    accepted: vcpus(
      3,
      { id: 0, enabled: true, order: 1 },
      { id: 1, enabled: true, order: 2 },
      { id: 2, enabled: false, hotpluggable: true },
    ),
  },
  {
    refused: vcpus(
      3,
      { id: 0, enabled: true },
      { id: 1, enabled: false, hotpluggable: true },
      { id: 2, enabled: true, hotpluggable: true, order: 2 },
    ),
    causes: ['spec.domain.vcpus.vcpus[0].order: Required value: must be set for all enabled CPUs or for none'],
    accepted: vcpus(
      3,
      { id: 0, enabled: true },
      { id: 1, enabled: true },
      { id: 2, enabled: false, hotpluggable: true, order: 2 },
    ),
  },
  {
    refused: vcpus(2, { id: 0, enabled: false, hotpluggable: true }, { id: 1, enabled: true }),
    causes: [
      'spec.domain.vcpus.vcpus[0].enabled: Invalid value: false: must be true: CPU 0 is always enabled',
      'spec.domain.vcpus.vcpus[0].hotpluggable: Invalid value: true: must be false: CPU 0 cannot be unplugged',
    ],
    accepted: vcpus(2, { id: 0, enabled: true, hotpluggable: false }, { id: 1, enabled: true, hotpluggable: true }),
  },
  {
    refused: vcpus(2, { id: 0, enabled: true }, { id: 1, enabled: false, hotpluggable: false }),
    causes: [
      'spec.domain.vcpus.vcpus[1].hotpluggable: Invalid value: false: must be true for a CPU that is not enabled',
    ],
    accepted: vcpus(2, { id: 0, enabled: true }, { id: 1, enabled: false, hotpluggable: true }),
  },
])

testRule('vcpu-states', [
  {
    refused: vcpus(
      3,
      { id: 0, enabled: true, order: 1 },
      { id: 1, enabled: false, hotpluggable: true },
      { id: 2, enabled: true },
    ),
    causes: ['spec.domain.vcpus.vcpus[2].order: Required value: must be set for all enabled CPUs or for none'],
    accepted: vcpus(
      3,
      { id: 0, enabled: true, order: 1 },
      { id: 1, enabled: false, hotpluggable: true },
      { id: 2, enabled: true, order: 2 },
    ),
  },
])

testSilent('cpu-mode', [{ cpu: { mode: 'host-passthrough' } }], { base: {} })
testSilent('cpu-cache', [{ cpu: { cache: { level: 2 } } }])
testSilent('cpu-features', [{ cpu: { mode: 'host-model', vendor: 'Intel', model: { value: 'Skylake-Client' } } }])
testSilent('vcpu-count', [{ vcpu: { value: 300 } }], {
  capabilities: {
    ...bundledCapabilities,
    machines: bundledCapabilities.machines.map((machine) => ({ ...machine, maxCpus: 0 })),
  },
})

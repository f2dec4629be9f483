import { numberOf } from '../defaults/reading.ts'
import { chipsetOf } from '../defaults/machine.ts'
import { machineType } from '../capabilities.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { duplicate, forbidden, invalid, lacking, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Cpu = NonNullable<Domain['cpu']>

const isHosts = ({ mode }: Cpu): boolean => mode === 'host-passthrough' || mode === 'maximum'

const cpuMode: Rule = {
  id: 'cpu-mode',
  description: 'The CPU of the node is handed through under KVM only.',
  *check({ domain: { cpu, type } }) {
    if (cpu?.mode !== 'host-passthrough' || type === undefined || type === 'kvm') return
    const message = 'is possible under KVM only: emulation has no use for the CPU of the node'
    yield invalid('spec.domain.cpu.mode', cpu.mode, message, 'type: kvm, or mode maximum')
  },
  example: example(
    { type: 'qemu', cpu: { mode: 'host-passthrough' } },
    { type: 'kvm', cpu: { mode: 'host-passthrough' } },
  ),
}

const cpuCache: Rule = {
  id: 'cpu-cache',
  description: 'The caches of the node are shown with its own CPU only, made-up ones at level 3 only.',
  about: ['cache'],
  *check({ domain: { cpu } }) {
    const { mode, level } = cpu?.cache ?? {}
    if (!cpu || mode === undefined) return
    const field = 'spec.domain.cpu.cache'
    if (mode === 'emulate' && numberOf(level) !== 3) {
      yield invalid(`${field}.level`, level ?? '', 'must be 3 where the cache is emulated')
    }
    if (mode === 'passthrough' && !isHosts(cpu)) {
      yield invalid(`${field}.mode`, mode, 'is possible with cpu.mode host-passthrough and maximum only')
    }
    if (mode !== 'emulate' && level !== undefined) {
      yield forbidden(`${field}.level`, level, `may not be given for mode ${mode}, which is about all levels`)
    }
  },
  example: example(
    { type: 'kvm', cpu: { mode: 'host-model', cache: { mode: 'passthrough' } } },
    { type: 'kvm', cpu: { mode: 'host-passthrough', cache: { mode: 'passthrough' } } },
  ),
}

/** Of an x86 CPU, by its architecture. */
const mostBits = 52

const cpuAddressBits: Rule = {
  id: 'cpu-address-bits',
  description:
    'The width of addresses is a number of bits where it is made up, and a limit at most where it is the node’s own.',
  about: ['maxphysaddr'],
  *check({ domain: { cpu } }) {
    const { mode, bits, limit } = cpu?.maxphysaddr ?? {}
    const field = 'spec.domain.cpu.maxphysaddr'
    if ((numberOf(bits) ?? 0) > mostBits)
      yield invalid(`${field}.bits`, bits, `must be at most ${mostBits}, as on any x86`)
    if (mode === 'passthrough' && bits !== undefined) {
      yield forbidden(`${field}.bits`, bits, 'may not be given for mode passthrough', 'did you mean "limit"?')
    }
    if (mode === 'emulate' && limit !== undefined)
      yield forbidden(`${field}.limit`, limit, 'may be given for mode passthrough only')
  },
  example: example(
    { type: 'kvm', cpu: { mode: 'host-passthrough', maxphysaddr: { mode: 'passthrough', bits: 42 } } },
    { type: 'kvm', cpu: { mode: 'host-passthrough', maxphysaddr: { mode: 'passthrough', limit: 42 } } },
  ),
}

const cpuFeatures: Rule = {
  id: 'cpu-features',
  description:
    'Features and a vendor go with a model that is named, each feature once; what migrates is said of the node’s own CPU only.',
  about: ['features', 'vendor', 'migratable'],
  *check({ domain: { cpu }, originOf }) {
    if (!cpu) return
    const field = 'spec.domain.cpu'
    const features = cpu.features ?? []
    const isNamed = cpu.model?.value !== undefined && originOf(`${field}.model.value`).by !== 'default'
    const isCustom = (cpu.mode ?? 'custom') === 'custom'
    if (isCustom && !isNamed && (features.length > 0 || cpu.vendor !== undefined)) {
      const what = features.length > 0 ? 'features' : 'vendor'
      yield required(
        `${field}.model`,
        `must be given beside ${what}: the model that they belong to`,
        'or a mode, e.g. host-model',
      )
    }
    if (!isCustom && !isNamed && cpu.vendor !== undefined)
      yield forbidden(`${field}.vendor`, cpu.vendor, 'may be given beside a model only')
    const seen = new Set<string>()
    for (const [index, { name }] of features.entries()) {
      if (name === undefined || name === '') yield required(`${field}.features[${index}].name`, 'must be given')
      else if (seen.has(name)) yield duplicate(`${field}.features[${index}].name`, name, 'is given twice')
      if (name !== undefined) seen.add(name)
    }
    if (cpu.migratable !== undefined && !isHosts(cpu)) {
      yield forbidden(`${field}.migratable`, cpu.migratable, 'may be given for mode host-passthrough and maximum only')
    }
  },
  example: example(
    { cpu: { features: [{ name: 'vmx' }] } },
    { cpu: { mode: 'host-model', features: [{ name: 'vmx' }] } },
  ),
}

const parts = ['sockets', 'dies', 'clusters', 'cores', 'threads'] as const

const cpuTopology: Rule = {
  id: 'cpu-topology',
  description: 'Sockets, dies, clusters, cores and threads multiply to the number of virtual CPUs.',
  about: ['topology'],
  *check({ domain: { cpu, vcpu } }) {
    const topology = cpu?.topology
    if (!topology) return
    const field = 'spec.domain.cpu.topology'
    const faults: Finding[] = []
    for (const key of ['sockets', 'cores', 'threads'] as const) {
      if (topology[key] === undefined) faults.push(required(`${field}.${key}`, 'must be given: a topology is whole'))
    }
    for (const key of parts) {
      if (numberOf(topology[key]) === 0) faults.push(invalid(`${field}.${key}`, 0, 'must be at least 1'))
    }
    yield* faults
    if (faults.length > 0) return
    const product = parts.reduce((all, key) => all * (numberOf(topology[key]) ?? 1), 1)
    const count = numberOf(vcpu?.value) ?? 1
    if (product !== count) {
      const given = parts
        .filter((key) => topology[key] !== undefined)
        .map((key) => `${topology[key]} ${key}`)
        .join(' × ')
      yield invalid('spec.domain.vcpu.value', count, `must be ${product}, which is what cpu.topology makes: ${given}`)
    }
  },
  example: example(
    { vcpu: { value: 3 }, cpu: { topology: { sockets: 1, cores: 2, threads: 1 } } },
    { vcpu: { value: 2 }, cpu: { topology: { sockets: 1, cores: 2, threads: 1 } } },
  ),
}

/** Interrupts reach more CPUs in the extended mode of an IOMMU only. */
const maxWithoutEim = 255

const vcpuCount: Rule = {
  id: 'vcpu-count',
  description: 'There are as many virtual CPUs as the machine type can have, and no more plugged in than there are.',
  *check({ domain, capabilities }) {
    const { vcpu, os, devices } = domain
    const count = numberOf(vcpu?.value) ?? 1
    const field = 'spec.domain.vcpu'
    const current = numberOf(vcpu?.current)
    if (current !== undefined && current > count) {
      yield invalid(`${field}.current`, current, `must be at most value, ${count}`)
    }
    if (current === 0) yield invalid(`${field}.current`, current, 'must be at least 1')
    const machine = machineType(capabilities, os?.type?.machine ?? '')
    if (machine && count > machine.maxCpus && machine.maxCpus > 0) {
      const message = `must be at most ${machine.maxCpus}, for machine type ${machine.name}`
      yield lacking(`${count} CPUs for machine type ${machine.name}`, invalid(`${field}.value`, count, message))
    } else if (count > maxWithoutEim && chipsetOf(domain) === 'q35' && devices?.iommu?.driver?.eim !== true) {
      const message = `must be at most ${maxWithoutEim} without an IOMMU in extended interrupt mode`
      yield invalid(`${field}.value`, count, message, 'devices.iommu: {model: intel, driver: {intremap: on, eim: on}}')
    }
  },
  example: example({ vcpu: { value: 2, current: 3 } }, { vcpu: { value: 2, current: 2 } }),
}

const vcpuStates: Rule = {
  id: 'vcpu-states',
  description:
    'Single virtual CPUs exist, and are plugged in in an order that is said for all or none; the first is always there.',
  about: ['vcpus'],
  *check({ domain: { vcpus, vcpu } }) {
    const count = numberOf(vcpu?.value) ?? 1
    const states = vcpus?.vcpus ?? []
    const ordered = states.filter(({ enabled, order }) => enabled !== false && order !== undefined).length
    const enabled = states.filter((one) => one.enabled !== false).length
    if (ordered > 0 && ordered < enabled) {
      const message = 'must be given for all that are plugged in, or for none'
      const index = states.findIndex((one) => one.enabled !== false && one.order === undefined)
      yield required(`spec.domain.vcpus.vcpus[${index}].order`, message)
    }
    for (const [index, one] of states.entries()) {
      const at = `spec.domain.vcpus.vcpus[${index}]`
      const id = numberOf(one.id)
      if (id === undefined) yield required(`${at}.id`, 'must be given')
      else if (id >= count) yield invalid(`${at}.id`, id, `must be less than ${count}, the number of virtual CPUs`)
      if (id === 0 && one.enabled === false)
        yield invalid(`${at}.enabled`, false, 'must be true: the first CPU is always plugged in')
      if (id === 0 && one.hotpluggable === true)
        yield invalid(`${at}.hotpluggable`, true, 'must be false: the first CPU cannot be unplugged')
      if (one.hotpluggable === false && one.enabled === false)
        yield invalid(`${at}.hotpluggable`, false, 'must be true for a CPU that is not plugged in yet')
    }
  },
  example: example(
    { vcpu: { value: 1 }, vcpus: { vcpus: [{ id: 1, enabled: true }] } },
    { vcpu: { value: 1 }, vcpus: { vcpus: [{ id: 0, enabled: true }] } },
  ),
}

export const cpuRules: readonly Rule[] = [
  cpuMode,
  cpuCache,
  cpuAddressBits,
  cpuFeatures,
  cpuTopology,
  vcpuCount,
  vcpuStates,
]

import { numberOf } from '../defaults/reading.ts'
import { chipsetOf } from '../defaults/machine.ts'
import { machineType } from '../capabilities.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { duplicate, forbidden, invalid, missingCapability, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Cpu = NonNullable<Domain['cpu']>

const isHosts = ({ mode }: Cpu): boolean => mode === 'host-passthrough' || mode === 'maximum'

const cpuMode: Rule = {
  id: 'cpu-mode',
  description: 'CPU mode `host-passthrough` requires KVM.',
  *check({ domain: { cpu, type } }) {
    if (cpu?.mode !== 'host-passthrough' || type === undefined || type === 'kvm') return
    const message = 'requires KVM: emulation does not use the CPU of the node'
    yield invalid('spec.domain.cpu.mode', cpu.mode, message, 'type: kvm, or mode: maximum')
  },
  example: example(
    { type: 'qemu', cpu: { mode: 'host-passthrough' } },
    { type: 'kvm', cpu: { mode: 'host-passthrough' } },
  ),
}

const cpuCache: Rule = {
  id: 'cpu-cache',
  description: 'Passing through the caches of the node requires its CPU; an emulated cache must be of level 3.',
  about: ['cache'],
  *check({ domain: { cpu } }) {
    const { mode, level } = cpu?.cache ?? {}
    if (!cpu || mode === undefined) return
    const field = 'spec.domain.cpu.cache'
    if (mode === 'emulate' && numberOf(level) !== 3) {
      yield invalid(`${field}.level`, level ?? '', 'must be 3 for mode emulate')
    }
    if (mode === 'passthrough' && !isHosts(cpu)) {
      yield invalid(`${field}.mode`, mode, 'is only supported with cpu.mode host-passthrough and maximum')
    }
    if (mode !== 'emulate' && level !== undefined) {
      yield forbidden(`${field}.level`, level, `must not be set for mode ${mode}, which covers all levels`)
    }
  },
  example: example(
    { type: 'kvm', cpu: { mode: 'host-model', cache: { mode: 'passthrough' } } },
    { type: 'kvm', cpu: { mode: 'host-passthrough', cache: { mode: 'passthrough' } } },
  ),
}

/** The architectural limit of x86. */
const mostBits = 52

const cpuAddressBits: Rule = {
  id: 'cpu-address-bits',
  description: '`cpu.maxphysaddr` takes `bits` in mode emulate and `limit` in mode passthrough.',
  about: ['maxphysaddr'],
  *check({ domain: { cpu } }) {
    const { mode, bits, limit } = cpu?.maxphysaddr ?? {}
    const field = 'spec.domain.cpu.maxphysaddr'
    if ((numberOf(bits) ?? 0) > mostBits)
      yield invalid(`${field}.bits`, bits, `must be at most ${mostBits}, the limit of x86`)
    if (mode === 'passthrough' && bits !== undefined) {
      yield forbidden(`${field}.bits`, bits, 'must not be set for mode passthrough', 'did you mean "limit"?')
    }
    if (mode === 'emulate' && limit !== undefined)
      yield forbidden(`${field}.limit`, limit, 'can only be set for mode passthrough')
  },
  example: example(
    { type: 'kvm', cpu: { mode: 'host-passthrough', maxphysaddr: { mode: 'passthrough', bits: 42 } } },
    { type: 'kvm', cpu: { mode: 'host-passthrough', maxphysaddr: { mode: 'passthrough', limit: 42 } } },
  ),
}

const cpuFeatures: Rule = {
  id: 'cpu-features',
  description:
    'CPU features and a vendor require a named model, each feature at most once; `migratable` requires mode host-passthrough or maximum.',
  about: ['features', 'vendor', 'migratable'],
  *check({ domain: { cpu }, originOf }) {
    if (!cpu) return
    const field = 'spec.domain.cpu'
    const features = cpu.features ?? []
    const isNamed = cpu.model?.value !== undefined && originOf(`${field}.model.value`).by !== 'default'
    const isCustom = (cpu.mode ?? 'custom') === 'custom'
    if (isCustom && !isNamed && (features.length > 0 || cpu.vendor !== undefined)) {
      const what = features.length > 0 ? 'features' : 'vendor'
      yield required(`${field}.model`, `must be set when cpu.${what} is set`, 'or set cpu.mode, e.g. host-model')
    }
    if (!isCustom && !isNamed && cpu.vendor !== undefined)
      yield forbidden(`${field}.vendor`, cpu.vendor, 'requires cpu.model')
    const seen = new Set<string>()
    for (const [index, { name }] of features.entries()) {
      if (name === undefined || name === '') yield required(`${field}.features[${index}].name`, 'must be set')
      else if (seen.has(name)) yield duplicate(`${field}.features[${index}].name`, name, 'is listed more than once')
      if (name !== undefined) seen.add(name)
    }
    if (cpu.migratable !== undefined && !isHosts(cpu)) {
      yield forbidden(`${field}.migratable`, cpu.migratable, 'can only be set for mode host-passthrough and maximum')
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
  description: 'The product of `cpu.topology` must be the number of virtual CPUs.',
  about: ['topology'],
  *check({ domain: { cpu, vcpu } }) {
    const topology = cpu?.topology
    if (!topology) return
    const field = 'spec.domain.cpu.topology'
    const causes: Finding[] = []
    for (const key of ['sockets', 'cores', 'threads'] as const) {
      if (topology[key] === undefined)
        causes.push(required(`${field}.${key}`, 'must be set: a topology requires sockets, cores and threads'))
    }
    for (const key of parts) {
      if (numberOf(topology[key]) === 0) causes.push(invalid(`${field}.${key}`, 0, 'must be at least 1'))
    }
    yield* causes
    if (causes.length > 0) return
    const product = parts.reduce((all, key) => all * (numberOf(topology[key]) ?? 1), 1)
    const count = numberOf(vcpu?.value) ?? 1
    if (product !== count) {
      const given = parts
        .filter((key) => topology[key] !== undefined)
        .map((key) => `${topology[key]} ${key}`)
        .join(' × ')
      yield invalid('spec.domain.vcpu.value', count, `must be ${product}, the product of cpu.topology: ${given}`)
    }
  },
  example: example(
    { vcpu: { value: 3 }, cpu: { topology: { sockets: 1, cores: 2, threads: 1 } } },
    { vcpu: { value: 2 }, cpu: { topology: { sockets: 1, cores: 2, threads: 1 } } },
  ),
}

/** Interrupts reach more CPUs only through an IOMMU in extended interrupt mode. */
const maxWithoutEim = 255

const vcpuCount: Rule = {
  id: 'vcpu-count',
  description:
    '`vcpu.value` must be within the limit of the machine type, and `vcpu.current` between 1 and `vcpu.value`.',
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
      const message = `must be at most ${machine.maxCpus} for machine type ${machine.name}`
      yield missingCapability(
        `${count} CPUs for machine type ${machine.name}`,
        invalid(`${field}.value`, count, message),
      )
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
    'The ids in `vcpus` must be those of virtual CPUs; `order` must be set for all enabled CPUs or for none; CPU 0 is always enabled.',
  about: ['vcpus'],
  *check({ domain: { vcpus, vcpu } }) {
    const count = numberOf(vcpu?.value) ?? 1
    const states = vcpus?.vcpus ?? []
    const ordered = states.filter(({ enabled, order }) => enabled !== false && order !== undefined).length
    const enabled = states.filter((one) => one.enabled !== false).length
    if (ordered > 0 && ordered < enabled) {
      const message = 'must be set for all enabled CPUs or for none'
      const index = states.findIndex((one) => one.enabled !== false && one.order === undefined)
      yield required(`spec.domain.vcpus.vcpus[${index}].order`, message)
    }
    if (states.length > 0 && !states.some(({ id }) => numberOf(id) === 0))
      yield required('spec.domain.vcpus.vcpus', 'must list CPU 0, which is always enabled', '{id: 0, enabled: true}')
    for (const [index, one] of states.entries()) {
      const at = `spec.domain.vcpus.vcpus[${index}]`
      const id = numberOf(one.id)
      const order = numberOf(one.order)
      if (id === 0 && order !== undefined && order !== 1)
        yield invalid(`${at}.order`, order, 'must be 1: CPU 0 is enabled first')
      if (id === undefined) yield required(`${at}.id`, 'must be set')
      else if (id >= count) yield invalid(`${at}.id`, id, `must be less than ${count}, the number of virtual CPUs`)
      if (id === 0 && one.enabled === false)
        yield invalid(`${at}.enabled`, false, 'must be true: CPU 0 is always enabled')
      if (id === 0 && one.hotpluggable === true)
        yield invalid(`${at}.hotpluggable`, true, 'must be false: CPU 0 cannot be unplugged')
      if (one.hotpluggable === false && one.enabled === false)
        yield invalid(`${at}.hotpluggable`, false, 'must be true for a CPU that is not enabled')
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

import type { Accelerator } from '../../api/capabilities.ts'
import { featuresWith, isDropped, requiredCpuLabels, requiredFeatures, requiredModel } from '../../api/cpu-label.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { invalid, missingHardware, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Cpu = NonNullable<Domain['cpu']>

/**
 * libvirt itself checks less with `check: partial`: it compares with its own description of the host, and then starts
 * the guest without the features that KVM does not have.
 */
export const cpuHost: Rule = {
  id: 'cpu-host',
  description:
    'Under KVM, the CPU of the node must have the model and the features that the VM requires, and none that it forbids. `check: none` requires no model.',
  about: ['cpu'],
  *check({ domain, capabilities: { accelerators } }) {
    const { type, cpu } = domain
    const { kvm } = accelerators
    if (type !== 'kvm' || cpu === undefined || kvm === undefined) return
    yield* checkModel(domain, cpu, kvm)
    yield* checkFeatures(cpu, kvm)
  },
  example: example(
    { type: 'kvm', cpu: { model: { value: 'i960', fallback: 'forbid' } } },
    { type: 'kvm', cpu: { model: { value: 'i960', fallback: 'forbid' }, check: 'none' } },
  ),
}

function* checkModel(domain: Domain, cpu: Cpu, { cpuModels }: Accelerator): Iterable<Finding> {
  const name = requiredModel(cpu)
  if (name === undefined) return
  const field = 'spec.domain.cpu.model.value'
  const model = cpuModels.find((one) => one.name === name || one.canonical === name)
  const hardware = Object.keys(requiredCpuLabels(domain)).some((label) => label.endsWith(`/${name}`))
    ? 'labeled'
    : 'unlabeled'
  if (model === undefined) {
    // libvirt falls back to a similar model if it may.
    if (cpu.model?.fallback !== 'forbid') return
    const message = 'QEMU on this node has no such CPU model, and cpu.model.fallback forbids another'
    yield missingHardware(`CPU model ${name}`, hardware, unsupported(field, name, message))
    return
  }
  const dropped = new Set((cpu.features ?? []).flatMap(({ name: of, policy }) => (isDropped(policy) ? [of] : [])))
  const missing = model.blockers.filter((feature) => !dropped.has(feature))
  if (missing.length === 0) return
  const message = `the node's CPU does not have all features of this model: ${missing.join(', ')}`
  const what = `CPU ${counted(missing)} of model ${name}`
  yield missingHardware(what, hardware, unsupported(field, name, message, 'mode: host-model'))
}

function* checkFeatures(cpu: Cpu, { cpuFeatures }: Accelerator): Iterable<Finding> {
  if (cpuFeatures === undefined) return
  const required = new Set(requiredFeatures(cpu))
  const forbidden = new Set(featuresWith(cpu, 'forbid'))
  const all = new Set(cpuFeatures)
  for (const [index, { name = '' }] of (cpu.features ?? []).entries()) {
    const has = all.has(name)
    if (required.has(name) && !has) {
      const finding = unsupported(`spec.domain.cpu.features[${index}].name`, name, "the node's CPU does not have it")
      yield missingHardware(`CPU feature ${name}`, 'labeled', finding)
    }
    if (forbidden.has(name) && has) {
      const finding = invalid(`spec.domain.cpu.features[${index}].policy`, 'forbid', `the node's CPU has ${name}`)
      yield missingHardware(`a CPU without ${name}`, 'unlabeled', finding)
    }
  }
}

const counted = (names: readonly string[]): string =>
  `${names.length === 1 ? 'feature' : 'features'} ${names.join(', ')}`

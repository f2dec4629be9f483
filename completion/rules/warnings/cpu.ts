import { nearest } from '../../../api/nearest.ts'
import { example } from '../rule.ts'
import type { Warning } from './warning.ts'

export const unknownCpu: Warning = {
  id: 'cpu-model-unknown',
  description: 'QEMU on the node should have the CPU model.',
  *check({ domain: { cpu, type }, capabilities: { accelerators } }) {
    const name = cpu?.model?.value
    const models = accelerators[type === 'kvm' ? 'kvm' : 'qemu']?.cpuModels
    if (name === undefined || !models || (cpu?.mode ?? 'custom') !== 'custom') return
    if (models.some((model) => model.name === name || model.canonical === name)) return
    const names = models.flatMap(({ name: one, canonical }) => (canonical === undefined ? [one] : [one, canonical]))
    const near = nearest(name, names)
    yield `cpu.model: QEMU on this node has no ${JSON.stringify(name.slice(0, 40))}${near === undefined ? '' : `; did you mean ${near}?`}`
  },
  example: example({ cpu: { model: { value: 'Skylak-Server' } } }, { cpu: { model: { value: 'Skylake-Server' } } }),
}

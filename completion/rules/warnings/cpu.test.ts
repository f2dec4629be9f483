import type { Domain } from '../../../api/domain/domain.ts'
import { testWarning } from '../../../test/rule-table.ts'

const cpu = (value: string, cpu: Domain['cpu'] = {}, type: 'kvm' | 'qemu' = 'kvm'): Domain => ({
  type,
  cpu: { model: { value }, ...cpu },
})

const near = 'cpu.model: QEMU on this node has no "Skylak-Server"; did you mean Skylake-Server?'

testWarning('cpu-model-unknown', [
  { warned: cpu('Skylak-Server'), lines: [near], silent: cpu('Skylake-Server') },
  { warned: cpu('Skylak-Server', {}, 'qemu'), lines: [near], silent: cpu('Skylake-Server', {}, 'qemu') },
  {
    warned: cpu('Skylak-Server', { mode: 'custom' }),
    lines: [near],
    silent: cpu('Skylak-Server', { mode: 'host-model' }),
  },
  {
    warned: cpu('NoSuchModel'),
    lines: ['cpu.model: QEMU on this node has no "NoSuchModel"'],
    silent: { cpu: { mode: 'host-model' } },
  },
  {
    warned: cpu('x'.repeat(50)),
    lines: [`cpu.model: QEMU on this node has no "${'x'.repeat(40)}"`],
    silent: cpu('qemu64'),
  },
])

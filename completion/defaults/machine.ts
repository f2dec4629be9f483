import type { Domain } from '../../api/domain/domain.ts'

/** The kind of machine, which determines its buses and the devices that it always has. */
export type Chipset = 'i440fx' | 'q35' | 'isapc' | 'microvm' | 'other'

export const chipsetOf = (domain: Domain): Chipset => {
  const machine = domain.os?.type?.machine ?? ''
  if (machine === 'q35' || machine.startsWith('pc-q35-')) return 'q35'
  if (machine === 'pc' || /^pc-(?:i440fx-|0\.|1\.)/.test(machine)) return 'i440fx'
  if (machine === 'isapc' || machine === 'microvm') return machine
  return 'other'
}

/** Whether the machine has a PCI bus. */
export const hasPci = (domain: Domain): boolean => ['i440fx', 'q35'].includes(chipsetOf(domain))

import type { Domain } from '../../api/domain/domain.ts'

/** The kind of machine, which decides about buses and the devices that are always there. */
export type Chipset = 'i440fx' | 'q35' | 'isapc' | 'microvm' | 'other'

export const chipsetOf = (domain: Domain): Chipset => {
  const machine = domain.os?.type?.machine ?? ''
  if (machine === 'q35' || machine.startsWith('pc-q35-')) return 'q35'
  if (machine === 'pc' || /^pc-(?:i440fx-|0\.|1\.)/.test(machine)) return 'i440fx'
  if (machine === 'isapc' || machine === 'microvm') return machine
  return 'other'
}

/** Machines with a PCI bus. */
export const hasPci = (domain: Domain): boolean => ['i440fx', 'q35'].includes(chipsetOf(domain))

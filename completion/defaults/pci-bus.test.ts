import { describe, expect, test } from 'vitest'
import {
  needsOf,
  connect,
  createBuses,
  hasFreeSlot,
  isSlotUsed,
  reserve,
  reserveNext,
  type PciModel,
} from './pci-bus.ts'

const pci = connect.pciDevice | connect.automatic
const pcie = connect.pcieDevice | connect.automatic

/** The addresses of some devices, as `bus:slot.function`, and the models of the buses afterwards. */
const fillUp = (
  models: readonly PciModel[],
  needs: readonly number[],
  canGrow = true,
): { places: string[]; models: string[] } => {
  const buses = createBuses(models, canGrow)
  const places = needs.map((one) => {
    const found = reserveNext(buses, one)
    return found ? `${found.bus}:${found.slot}.${found.function}` : 'none'
  })
  return { places, models: buses.list.map(({ model }) => model) }
}

describe('the next free address', () => {
  test.each<[string, readonly PciModel[], readonly number[], string[], string[]]>([
    ['starts at slot 1 of a root', ['pci-root'], [pci, pci], ['0:1.0', '0:2.0'], ['pci-root']],
    [
      'is behind a root port for PCI Express',
      ['pcie-root', 'pcie-root-port'],
      [pcie],
      ['1:0.0'],
      ['pcie-root', 'pcie-root-port'],
    ],
    [
      'adds a root port if all are in use',
      ['pcie-root', 'pcie-root-port'],
      [pcie, pcie],
      ['1:0.0', '2:0.0'],
      ['pcie-root', 'pcie-root-port', 'pcie-root-port'],
    ],
    [
      'adds a root port and a bridge for PCI on PCI Express',
      ['pcie-root'],
      [pci],
      ['2:1.0'],
      ['pcie-root', 'pcie-root-port', 'pcie-to-pci-bridge'],
    ],
    [
      'lets ports share a slot of the root',
      ['pcie-root'],
      [needsOf('pcie-root-port'), needsOf('pcie-root-port')],
      ['0:1.0', '0:1.1'],
      ['pcie-root'],
    ],
    [
      'is on the root only for a part of the chipset',
      ['pci-root'],
      [connect.pcieDevice | connect.integrated],
      ['none'],
      ['pci-root'],
    ],
    [
      'does not exist for a switch port without a switch',
      ['pcie-root'],
      [needsOf('pcie-switch-downstream-port')],
      ['none'],
      ['pcie-root'],
    ],
  ])('%s', (_, models, needs, places, after) => expect(fillUp(models, needs)).toEqual({ places, models: after }))

  test('does not exist if all are in use and no bus may be added', () => {
    expect(fillUp(['pcie-root', 'pcie-root-port'], [pcie, pcie], false).places).toEqual(['1:0.0', 'none'])
  })

  test('continues from slot 31 on a bridge', () => {
    const { places, models } = fillUp(
      ['pci-root'],
      Array.from({ length: 33 }, () => pci),
    )
    expect(places.slice(29)).toEqual(['0:30.0', '0:31.0', '1:1.0', '1:2.0'])
    expect(models).toEqual(['pci-root', 'pci-bridge'])
  })

  test('is in the next slot if eight functions are in use', () => {
    const ports = Array.from({ length: 9 }, () => needsOf('pcie-root-port'))
    expect(fillUp(['pcie-root'], ports).places.slice(7)).toEqual(['0:1.7', '0:2.0'])
  })
})

test('does not assign an address twice, or another function of an exclusive slot', () => {
  const buses = createBuses(['pci-root'], false)
  reserve(buses, { bus: 0, slot: 1, function: 3 }, pci)
  expect(isSlotUsed(buses, { bus: 0, slot: 1, function: 0 })).toBe(true)
  expect(reserveNext(buses, pci)).toEqual({ bus: 0, slot: 2, function: 0 })
})

test('an address reserved on a missing bus is in use once the bus is added', () => {
  const buses = createBuses(['pcie-root', 'pcie-root-port'], true)
  reserve(buses, { bus: 2, slot: 0, function: 0 }, needsOf('pcie-root-port'))
  expect(buses.list.length).toBe(2)
  const places = [reserveNext(buses, pcie), reserveNext(buses, pcie)]
  expect(places.map((place) => place?.bus)).toEqual([1, 3])
})

test('reports whether a bus has room', () => {
  const buses = createBuses(['pcie-root-port'], false)
  expect(hasFreeSlot(buses)).toBe(true)
  reserveNext(buses, pcie)
  expect(hasFreeSlot(buses)).toBe(false)
})

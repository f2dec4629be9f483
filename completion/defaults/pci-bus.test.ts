import { describe, expect, test } from 'vitest'
import {
  asksOf,
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

/** Where a number of devices go, as `bus:slot.function`, and the models of the buses that there are then. */
const fillUp = (
  models: readonly PciModel[],
  asks: readonly number[],
  canGrow = true,
): { places: string[]; models: string[] } => {
  const buses = createBuses(models, canGrow)
  const places = asks.map((one) => {
    const found = reserveNext(buses, one)
    return found ? `${found.bus}:${found.slot}.${found.function}` : 'none'
  })
  return { places, models: buses.list.map(({ model }) => model) }
}

describe('the next free address', () => {
  test.each<[string, readonly PciModel[], readonly number[], string[], string[]]>([
    ['begins with slot 1 of a root', ['pci-root'], [pci, pci], ['0:1.0', '0:2.0'], ['pci-root']],
    [
      'is behind a port for PCI Express',
      ['pcie-root', 'pcie-root-port'],
      [pcie],
      ['1:0.0'],
      ['pcie-root', 'pcie-root-port'],
    ],
    [
      'adds a port where all are taken',
      ['pcie-root', 'pcie-root-port'],
      [pcie, pcie],
      ['1:0.0', '2:0.0'],
      ['pcie-root', 'pcie-root-port', 'pcie-root-port'],
    ],
    [
      'adds port and bridge for PCI on PCI Express',
      ['pcie-root'],
      [pci],
      ['2:1.0'],
      ['pcie-root', 'pcie-root-port', 'pcie-to-pci-bridge'],
    ],
    [
      'lets ports share a slot of the root',
      ['pcie-root'],
      [asksOf('pcie-root-port'), asksOf('pcie-root-port')],
      ['0:1.0', '0:1.1'],
      ['pcie-root'],
    ],
    [
      'is nowhere but on the root for a part of the chipset',
      ['pci-root'],
      [connect.pcieDevice | connect.integrated],
      ['none'],
      ['pci-root'],
    ],
    [
      'cannot be had for a port of a switch without one',
      ['pcie-root'],
      [asksOf('pcie-switch-downstream-port')],
      ['none'],
      ['pcie-root'],
    ],
  ])('%s', (_, models, asks, places, after) => expect(fillUp(models, asks)).toEqual({ places, models: after }))

  test('is none where all are taken and no bus may be added', () => {
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

  test('goes to the next slot when eight functions are taken', () => {
    const ports = Array.from({ length: 9 }, () => asksOf('pcie-root-port'))
    expect(fillUp(['pcie-root'], ports).places.slice(7)).toEqual(['0:1.7', '0:2.0'])
  })
})

test('does not assign an address twice, nor another function of an exclusive slot', () => {
  const buses = createBuses(['pci-root'], false)
  reserve(buses, { bus: 0, slot: 1, function: 3 }, pci)
  expect(isSlotUsed(buses, { bus: 0, slot: 1, function: 0 })).toBe(true)
  expect(reserveNext(buses, pci)).toEqual({ bus: 0, slot: 2, function: 0 })
})

test('what is taken on a bus that there is not yet is taken when there is', () => {
  const buses = createBuses(['pcie-root', 'pcie-root-port'], true)
  reserve(buses, { bus: 2, slot: 0, function: 0 }, asksOf('pcie-root-port'))
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

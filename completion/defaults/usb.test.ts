import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { usbAddresses, usbHubs } from './usb.ts'

type Devices = NonNullable<Domain['devices']>
const tablet = { type: 'tablet', bus: 'usb' } as const
const xhci = { type: 'usb', index: 0, model: 'qemu-xhci' } as const
const piix3 = { type: 'usb', index: 0, model: 'piix3-uhci' } as const
const tablets = (count: number): Devices['inputs'] & object => Array.from({ length: count }, () => ({ ...tablet }))

const ports = (devices: Devices, isNew = true): string[] => {
  const { hubs = [], inputs = [], disks = [] } = applied([usbHubs, usbAddresses], { devices }, { isNew }).devices ?? {}
  const port = ({ address }: { address?: { bus?: number | string; port?: string } }): string =>
    address?.port === undefined ? 'none' : `${address.bus}-${address.port}`
  return [...hubs.map((one) => `hub ${port(one)}`), ...disks.map((one) => `disk ${port(one)}`), ...inputs.map(port)]
}

describe('ports of USB', () => {
  test.each<[string, Devices, string[]]>([
    ['are given in order', { controllers: [xhci], inputs: tablets(2) }, ['0-1', '0-2']],
    [
      'go around those that are taken',
      { controllers: [xhci], inputs: [{ ...tablet, address: { type: 'usb', bus: 0, port: '1' } }, tablet] },
      ['0-1', '0-2'],
    ],
    [
      'of disks come before those of inputs',
      { controllers: [xhci], inputs: [tablet], disks: [{ target: { dev: 'sda', bus: 'usb' } }] },
      ['disk 0-1', '0-2'],
    ],
    [
      'of the next controller follow',
      { controllers: [piix3, { ...piix3, index: 1 }], inputs: tablets(3) },
      ['0-1', '0-2', '1-1'],
    ],
    [
      'of the bus that the device names',
      { controllers: [xhci, { ...xhci, index: 1 }], inputs: [{ ...tablet, address: { type: 'usb', bus: 1 } }] },
      ['1-1'],
    ],
    [
      'are as many as the controller sets',
      { controllers: [{ ...xhci, ports: 6 }], inputs: tablets(6) },
      ['0-1', '0-2', '0-3', '0-4', '0-5', '0-6'],
    ],
    [
      'behind a hub have its number before theirs',
      { controllers: [piix3], hubs: [{ type: 'usb' }], inputs: tablets(3) },
      ['hub 0-1', '0-2', '0-1.1', '0-1.2'],
    ],
  ])('%s', (_, devices, expected) => expect(ports(devices)).toEqual(expected))

  test('of USB that is switched off are none, and no hub adds any', () => {
    expect(ports({ controllers: [{ ...xhci, model: 'none' }], inputs: [tablet] })).toEqual(['none'])
  })

  test('run out: hubs are added, at one port less each', () => {
    expect(ports({ controllers: [piix3], inputs: tablets(3) })).toEqual(['hub 0-1', '0-2', '0-1.1', '0-1.2'])
    expect(ports({ controllers: [xhci], inputs: tablets(12) }).filter((one) => one.startsWith('hub'))).toEqual([
      'hub 0-1',
      'hub 0-2',
    ])
  })

  test('are not given in a domain that libvirt has seen before', () => {
    expect(ports({ controllers: [piix3], inputs: tablets(3) }, false)).toEqual(['none', 'none', 'none'])
  })
})

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

describe('USB ports', () => {
  test.each<[string, Devices, string[]]>([
    ['are assigned in order', { controllers: [xhci], inputs: tablets(2) }, ['0-1', '0-2']],
    [
      'skip those in use',
      { controllers: [xhci], inputs: [{ ...tablet, address: { type: 'usb', bus: 0, port: '1' } }, tablet] },
      ['0-1', '0-2'],
    ],
    [
      'are assigned to disks before inputs',
      { controllers: [xhci], inputs: [tablet], disks: [{ target: { dev: 'sda', bus: 'usb' } }] },
      ['disk 0-1', '0-2'],
    ],
    [
      'continue on the next controller',
      { controllers: [piix3, { ...piix3, index: 1 }], inputs: tablets(3) },
      ['0-1', '0-2', '1-1'],
    ],
    [
      'are on the bus that the device sets',
      { controllers: [xhci, { ...xhci, index: 1 }], inputs: [{ ...tablet, address: { type: 'usb', bus: 1 } }] },
      ['1-1'],
    ],
    [
      'are limited by the number that the controller sets',
      { controllers: [{ ...xhci, ports: 6 }], inputs: tablets(6) },
      ['0-1', '0-2', '0-3', '0-4', '0-5', '0-6'],
    ],
    [
      'behind a hub are prefixed with the port of the hub',
      { controllers: [piix3], hubs: [{ type: 'usb' }], inputs: tablets(3) },
      ['hub 0-1', '0-2', '0-1.1', '0-1.2'],
    ],
  ])('%s', (_, devices, expected) => expect(ports(devices)).toEqual(expected))

  test('do not exist if USB is disabled, and no hub is added', () => {
    expect(ports({ controllers: [{ ...xhci, model: 'none' }], inputs: [tablet] })).toEqual(['none'])
  })

  test('run out: hubs are added, each of which occupies a port', () => {
    expect(ports({ controllers: [piix3], inputs: tablets(3) })).toEqual(['hub 0-1', '0-2', '0-1.1', '0-1.2'])
    expect(ports({ controllers: [xhci], inputs: tablets(12) }).filter((one) => one.startsWith('hub'))).toEqual([
      'hub 0-1',
      'hub 0-2',
    ])
  })

  test('are not assigned in a stored domain', () => {
    expect(ports({ controllers: [piix3], inputs: tablets(3) }, false)).toEqual(['none', 'none', 'none'])
  })
})

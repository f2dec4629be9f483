import { describe, expect, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import type { HostDevice } from '../api/host-device.ts'
import type { DeviceAttributes } from './claimed-device.ts'
import { deviceVariables, fillHostDevices } from './host-device.ts'

type Hostdev = NonNullable<NonNullable<Domain['devices']>['hostdevs']>[number]

const resourceName = 'example.com/fast-NIC'
const hostDevices = ['a', 'b'].map((name) => ({ name, resourceName }))
const hostdev = (name: string, more: Hostdev = {}): Hostdev => ({ type: 'pci', alias: { name: `ua-${name}` }, ...more })

async function filled(
  hostdevs: Hostdev[],
  env: { readonly [name: string]: string },
  devices: readonly HostDevice[] = hostDevices,
  claimed?: readonly DeviceAttributes[],
) {
  const allocated = { variables: deviceVariables(env), readClaimed: async () => claimed }
  const { devices: found } = await fillHostDevices({ devices: { hostdevs } }, devices, allocated)
  return found?.hostdevs?.map(({ source }) => source)
}

const address = (slot: number, part: number) => ({ address: { domain: 0, bus: 0x3b, slot, function: part } })
const two = '0000:3b:02.0,0000:3b:0a.1'

describe('the source of a host device', () => {
  test.each([
    'PCIDEVICE_EXAMPLE_COM_FAST_NIC',
    'PCIDEVICE_EXAMPLE_COM_FAST-NIC',
    'PCI_RESOURCE_EXAMPLE_COM_FAST-NIC',
    'PCI_RESOURCE_EXAMPLE_COM_FAST_NIC',
  ])('is the PCI address in %s', async (name) => {
    expect(await filled([hostdev('b'), hostdev('a')], { [name]: two })).toEqual([address(0x0a, 1), address(2, 0)])
  })

  test('is the UUID of a mediated device, beside the options of the domain', async () => {
    const uuid = '53764d0e-85a0-42b4-af5c-2046b460b1dc'
    const env = { MDEV_PCI_RESOURCE_EXAMPLE_COM_FAST_NIC: uuid }
    expect(
      await filled(
        [hostdev('a', { type: 'mdev' })],
        env,
        hostDevices.slice(1).map((one) => ({ ...one, name: 'a' })),
      ),
    ).toEqual([{ address: { uuid } }])
  })

  test('is the bus and number of a USB device, beside its options', async () => {
    const usb = hostdev('a', { type: 'usb', source: { guestReset: 'off' } })
    expect(await filled([usb], { USB_RESOURCE_EXAMPLE_COM_FAST_NIC: '2:17,2:18' })).toEqual([
      { guestReset: 'off', address: { bus: 2, device: 17 } },
    ])
  })

  test('is the first function of each device, if its plugin names several for one', async () => {
    const names = '0000:3b:02.0,0000:3b:02.1,0000:3b:0a.0,0000:3b:0a.1'
    const found = await filled([hostdev('a'), hostdev('b')], { PCI_RESOURCE_EXAMPLE_COM_FAST_NIC: names })
    expect(found).toEqual([address(2, 0), address(0x0a, 0)])
  })

  test('is that of the domain, if the node allocates no device for it', async () => {
    const source = { address: { bus: 6, slot: 1 } }
    expect(await filled([hostdev('c', { source }), { type: 'usb' }], {})).toEqual([source, undefined])
  })
})

const variable = 'PCIDEVICE_EXAMPLE_COM_FAST_NIC'

test.each<[string, { readonly [name: string]: string }, string]>([
  ['its plugin names no device', {}, `of ${resourceName} has not set ${variable} or PCI_RESOURCE_EXAMPLE_COM_FAST_NIC`],
  ['its plugin names none', { [variable]: '' }, `the pod requested 2 of ${resourceName}, and ${variable} names 0`],
  ['its plugin names too few', { [variable]: '0000:3b:02.0' }, `${variable} names 1`],
  ['its plugin names one and a half', { [variable]: `${two},0000:3b:0a.2` }, `${variable} names 3`],
  [
    'its plugin names them otherwise',
    { [variable]: '/dev/nic0,/dev/nic1' },
    'must name devices as 0000:3b:00.1, and has "/dev/nic0"',
  ],
  ['a variable is for another kind of device', { USB_RESOURCE_EXAMPLE_COM_FAST_NIC: '1:2,1:3' }, 'has not set'],
])('a VM does not start if %s', async (_, env, message) => {
  await expect(filled([hostdev('a')], env)).rejects.toThrow(message)
})

const claim = { name: 'cards', request: 'card' }
const claimed = ['a', 'b'].map((name) => ({ name, claim }))
const busId = 'resource.kubernetes.io/pciBusID'

test('the source of a device of a claim is what its driver describes', async () => {
  const uuid = '53764d0e-85a0-42b4-af5c-2046b460b1dc'
  const devices = two.split(',').map((name) => ({ [busId]: { string: name }, model: { string: 'fast' } }))
  expect([
    await filled([hostdev('b'), hostdev('a')], {}, claimed, devices),
    await filled([hostdev('a', { type: 'mdev' })], {}, claimed.slice(0, 1), [{ mdevUUID: { string: uuid } }]),
  ]).toEqual([[address(0x0a, 1), address(2, 0)], [{ address: { uuid } }]])
})

test.each<[string, Hostdev, DeviceAttributes[] | undefined, string]>([
  ['describes no devices', {}, undefined, 'has not described the devices of request card of claim cards in the pod'],
  ['describes too few', {}, [{}], `the pod requested 2 of request card of claim cards, and attribute ${busId} names 1`],
  ['does not name them', {}, [{}, {}], `attribute ${busId} must name devices as 0000:3b:00.1, and has ""`],
  ['cannot name them', { type: 'usb' }, [{}, {}], 'DRA drivers do not name devices of this type'],
])('a VM does not start if the driver of its claim %s', async (_, more, devices, message) => {
  await expect(filled([hostdev('a', more)], {}, claimed, devices)).rejects.toThrow(message)
})

test('only variables of device plugins are read', () => {
  expect(deviceVariables({ PATH: '/bin', PCIDEVICE_A: '1', MY_PCIDEVICE_A: '2', USB_RESOURCE_B: undefined })).toEqual({
    PCIDEVICE_A: '1',
  })
})

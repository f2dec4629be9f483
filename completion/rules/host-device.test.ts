import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { prepare, testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'
import { checkRules } from './rules.ts'

type Hostdev = DeviceOf<'hostdevs'>

const hostdevs = (...hostdevs: Hostdev[]): Domain => ({ devices: { hostdevs } })
const hostDevices = [{ name: 'gpu', resourceName: 'example.com/gpu' }]
const gpu = (more: Hostdev = {}): Hostdev => ({ type: 'pci', alias: { name: 'ua-gpu' }, ...more })
const at = 'spec.domain.devices.hostdevs[0]'

testRule('host-device-used', [
  {
    hostDevices,
    refused: {},
    causes: [
      'spec.hostDevices[0].name: Invalid value: "gpu": no host device in devices.hostdevs has the alias ua-gpu; none has an alias',
    ],
    accepted: hostdevs(gpu()),
  },
  {
    hostDevices,
    refused: hostdevs(gpu({ alias: { name: 'gpu' }, source: { address: { bus: 6 } } })),
    causes: [
      'spec.hostDevices[0].name: Invalid value: "gpu": no host device in devices.hostdevs has the alias ua-gpu; they have gpu',
    ],
    accepted: hostdevs(gpu()),
  },
])

const chosen = 'must not be set for a device of spec.hostDevices: the node chooses the device'

testRule('host-device-source', [
  {
    hostDevices,
    refused: hostdevs(gpu({ source: { address: { bus: 6, slot: 1 } } })),
    causes: [`${at}.source.address: Forbidden: ${chosen}`],
    accepted: hostdevs(gpu()),
  },
  {
    hostDevices,
    refused: hostdevs(gpu({ type: 'usb', source: { vendor: { id: '0x1050' }, product: { id: '0x0407' } } })),
    causes: [`${at}.source.vendor: Forbidden: ${chosen}`, `${at}.source.product: Forbidden: ${chosen}`],
    accepted: hostdevs(gpu({ type: 'usb', source: { guestReset: 'off' } })),
  },
  {
    hostDevices,
    refused: hostdevs(gpu({ type: 'scsi_host', source: {} })),
    causes: [
      `${at}.type: Unsupported value: "scsi_host": must be one of pci, usb, mdev for a device of spec.hostDevices`,
    ],
    accepted: hostdevs(gpu({ type: 'mdev', model: 'vfio-pci', display: false })),
  },
  {
    hostDevices,
    refused: hostdevs(gpu({ managed: true })),
    causes: [
      `${at}.managed: Invalid value: true: must be false for a device of spec.hostDevices: its device plugin has detached it`,
    ],
    accepted: hostdevs(gpu({ managed: false })),
  },
  {
    hostDevices,
    refused: hostdevs({ alias: { name: 'ua-gpu' } }),
    causes: [`${at}.type: Required value: must be set: the kind of device; pci, usb, mdev`],
    accepted: hostdevs(gpu()),
  },
])

const claimed = {
  hostDevices: [{ name: 'gpu', claim: { name: 'gpus', request: 'gpu' } }],
  resourceClaims: [{ name: 'gpus', resourceClaimTemplateName: 'gpus' }],
}

testRule('host-device-source', [
  {
    ...claimed,
    refused: hostdevs(gpu({ type: 'usb' })),
    causes: [`${at}.type: Unsupported value: "usb": must be one of pci, mdev for a device of a claim`],
    accepted: hostdevs(gpu()),
  },
])

test('a claim that the VM does not have is refused', () => {
  const causesOf = (row: object) => checkRules(...prepare(hostdevs(gpu()), row)).causes
  const { hostDevices: devices, resourceClaims } = claimed
  const others = resourceClaims.map((one) => ({ ...one, name: 'nics' }))
  const cause = (known: string) => ({
    rule: 'host-device-claim',
    field: 'spec.hostDevices[0].claim.name',
    message: `spec.resourceClaims has no such claim; ${known}`,
  })
  expect(causesOf(claimed)).toEqual([])
  expect(causesOf({ hostDevices: devices })).toMatchObject([cause('there are none')])
  expect(causesOf({ hostDevices: devices, resourceClaims: others })).toMatchObject([cause('they have nics')])
})

testSilent('host-device-source', [hostdevs({ type: 'pci', managed: true, source: { address: { bus: 6 } } })], {
  hostDevices,
})

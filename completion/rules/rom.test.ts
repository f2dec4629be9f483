import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Rom = NonNullable<DeviceOf<'interfaces'>['rom']>

const nic = (rom: Rom): Domain => ({ devices: { interfaces: [{ type: 'user', rom }] } })

const pci = (rom: Rom): Domain => ({
  devices: {
    hostdevs: [{ mode: 'subsystem', type: 'pci', source: { address: { type: 'pci', bus: 1, slot: 2 } }, rom }],
  },
})

const usb = { vendor: { id: '0x1234' }, product: { id: '0x5678' } }
const scsi = { adapter: { name: 'scsi_host0' }, address: { bus: 0, target: 0, unit: 0 } }

testRule('rom', [
  {
    refused: nic({ enabled: false, file: '/rom' }),
    causes: ['spec.domain.devices.interfaces[0].rom: Forbidden: must not set other fields when enabled is false'],
    accepted: nic({ enabled: true, file: '/rom' }),
  },
  {
    refused: nic({ enabled: false, bar: true }),
    causes: ['spec.domain.devices.interfaces[0].rom: Forbidden: must not set other fields when enabled is false'],
    accepted: nic({ enabled: false }),
  },
  {
    refused: pci({ enabled: false, bar: true }),
    causes: ['spec.domain.devices.hostdevs[0].rom: Forbidden: must not set other fields when enabled is false'],
    accepted: pci({ bar: true }),
  },
  {
    refused: { devices: { hostdevs: [{ mode: 'subsystem', type: 'usb', source: usb, rom: { bar: true } }] } },
    causes: [
      'spec.domain.devices.hostdevs[0].rom: Forbidden: must not be set for type usb: only PCI devices have a ROM',
    ],
    accepted: { devices: { hostdevs: [{ mode: 'subsystem', type: 'usb', source: usb }] } },
  },
  {
    refused: { devices: { hostdevs: [{ mode: 'subsystem', type: 'scsi', source: scsi, rom: { bar: true } }] } },
    causes: [
      'spec.domain.devices.hostdevs[0].rom: Forbidden: must not be set for type scsi: only PCI devices have a ROM',
    ],
    accepted: { devices: { hostdevs: [{ mode: 'subsystem', type: 'scsi', source: scsi }] } },
  },
])

testSilent('rom', [{ devices: { interfaces: [{ type: 'user' }] } }])

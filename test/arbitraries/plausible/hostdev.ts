import fc from 'fast-check'
import { drive, pci, usbAddress } from './address.ts'
import { many, mostly, part, rarely, weighted } from './part.ts'

export const hostdevs = many(
  weighted(
    [
      2,
      rarely(
        {
          mode: fc.constant('subsystem'),
          type: fc.constant('usb'),
          source: fc.constant({ vendor: { id: '0x1234' }, product: { id: '0x5678' } }),
        },
        { managed: fc.boolean(), address: usbAddress },
      ),
    ],
    [
      2,
      rarely(
        {
          mode: fc.constant('subsystem'),
          type: fc.constant('pci'),
          source: fc.constant({ address: { domain: '0x0000', bus: '0x06', slot: '0x12', function: '0x5' } }),
        },
        {
          managed: fc.boolean(),
          address: pci,
          driver: part({ name: mostly('devices.hostdevs.driver.name', 'vfio') }),
          rom: part({ bar: fc.boolean() }),
        },
      ),
    ],
    [
      1,
      rarely(
        {
          mode: fc.constant('subsystem'),
          type: fc.constant('scsi'),
          source: fc.constant({ adapter: { name: 'scsi_host0' }, address: { bus: 0, target: 0, unit: 0 } }),
        },
        { address: drive },
      ),
    ],
    [
      1,
      rarely(
        {
          mode: fc.constant('subsystem'),
          type: fc.constant('mdev'),
          model: mostly('devices.hostdevs.model', 'vfio-pci'),
          source: fc.constant({ address: { uuid: '53764d0e-85a0-42b4-af5c-2046b460b1dc' } }),
        },
        { display: fc.boolean() },
      ),
    ],
  ),
  2,
)

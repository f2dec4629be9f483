import { afterAll, beforeAll, expect, test } from 'vitest'
import { canonical } from '../../api/domain/canonical.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { validateDomain } from '../../api/domain/validate.ts'
import { writeDomain } from '../../api/domain/xml.ts'
import { startOracle, type Oracle } from './oracle.ts'

let oracle: Oracle

beforeAll(async () => {
  oracle = await startOracle()
})

afterAll(() => oracle.stop())

const base = (part: Domain): Domain => ({
  type: 'qemu',
  name: 'vm',
  uuid: 'c7a5fdbd-cdaf-9455-926a-d65c16db1809',
  memory: { unit: 'MiB', value: 64 },
  ...part,
  os: { type: { arch: 'x86_64', machine: 'q35', os: 'hvm' } },
})

type Devices = NonNullable<Domain['devices']>
type Hostdev = NonNullable<Devices['hostdevs']>[number]

const device = (devices: Devices): Domain => ({ devices })
const pci = (domain: Value): Hostdev => ({
  mode: 'subsystem',
  type: 'pci',
  source: { address: { domain, bus: 1, slot: 2, function: 0 } },
})
const usb = (bus: Value): Hostdev => ({
  mode: 'subsystem',
  type: 'usb',
  source: { address: { bus, device: 3 } },
})
const scsi = (target: Value): Hostdev => ({
  mode: 'subsystem',
  type: 'scsi',
  source: { adapter: { name: 'scsi_host0' }, address: { bus: 0, target, unit: 0 } },
})

type Value = string | number

/** Fields that libvirt parses in different ways: in base 10, 16, or as the prefix of the number states. */
const places: { readonly [path: string]: (value: Value) => Domain } = {
  'memory.value': (value) => ({ memory: { unit: 'MiB', value } }),
  'vcpu.value': (value) => ({ vcpu: { value } }),
  'vcpu.cpuset': (value) => ({ vcpu: { value: 1, cpuset: String(value) } }),
  'clock.adjustment': (adjustment) => ({ clock: { offset: 'variable', adjustment } }),
  'graphics.port': (port) => device({ graphics: [{ type: 'vnc', port }] }),
  'address.slot of a PCI device': (slot) =>
    device({ rngs: [{ model: 'virtio', backend: { model: 'builtin' }, address: { type: 'pci', bus: 0, slot } }] }),
  'address.unit of a drive': (unit) =>
    device({
      controllers: [{ type: 'scsi', index: 0, model: 'virtio-scsi' }],
      disks: [
        {
          type: 'file',
          device: 'cdrom',
          target: { dev: 'sda', bus: 'scsi' },
          address: { type: 'drive', controller: 0, bus: 0, target: 0, unit },
        },
      ],
    }),
  'address.port of a USB device': (port) =>
    device({
      controllers: [{ type: 'usb', index: 0, model: 'qemu-xhci', ports: 15 }],
      inputs: [{ type: 'tablet', bus: 'usb', address: { type: 'usb', bus: 0, port: String(port) } }],
    }),
  'address.iobase': (iobase) => device({ panics: [{ model: 'isa', address: { type: 'isa', iobase } }] }),
  'address.irq': (irq) => device({ serials: [{ type: 'null', address: { type: 'isa', iobase: '0x3f8', irq } }] }),
  'hostdevs.source.address.domain': (value) => device({ hostdevs: [pci(value)] }),
  'hostdevs.source.address.bus': (value) => device({ hostdevs: [usb(value)] }),
  'hostdevs.source.address.target': (value) => device({ hostdevs: [scsi(value)] }),
  'controllers.target.chassis': (chassis) =>
    device({
      controllers: [
        { type: 'pci', index: 0, model: 'pcie-root' },
        { type: 'pci', index: 1, model: 'pcie-root-port', target: { chassis } },
      ],
    }),
  'memballoon.stats.period': (period) => device({ memballoon: { model: 'virtio', stats: { period } } }),
  'redirfilter.usbdevs.vendor': (vendor) => device({ redirfilter: { usbdevs: [{ vendor, allow: true }] } }),
}

/** The integers 10, 8 and 16 in every spelling that some parser reads as one of them, and spellings of none. */
const spellings: readonly Value[] = [
  10,
  '10',
  '010',
  '0010',
  '0xa',
  '0xA',
  '0XA',
  '0x0a',
  '0xa ',
  ' 10',
  '+10',
  '1e1',
  '10.0',
  'a',
  'A',
  '0b1010',
  8,
  '8',
  '08',
  '0x8',
  '12',
  '012',
  '0o12',
  16,
  '16',
  '0x10',
  '0x010',
  '020',
  '-10',
  '-0',
  '0',
  '00',
  0,
]

const addressless = (xml: string): string => xml.replaceAll(/<mac address=.*?\/>/g, '')
const isValid = (domain: Domain): boolean => validateDomain(domain).length === 0

test.each(Object.entries(places))('%s: values are equal here if and only if they are for libvirt', async (_, place) => {
  const admitted = spellings
    .map((value) => ({ value, domain: base(place(value)) }))
    .filter(({ domain }) => isValid(domain))
  const meanings: { readonly value: Value; readonly ours: string; readonly libvirts: string }[] = []
  for (const { value, domain } of admitted) {
    const answer = await oracle.define(writeDomain(domain), false)
    // A refusal, such as of a slot that the bus does not have, gives no value to compare.
    if (answer.outcome === 'refused') continue
    meanings.push({ value, ours: JSON.stringify(canonical(domain)), libvirts: addressless(answer.xml) })
  }
  expect(meanings.length).toBeGreaterThan(2)
  const isEqual = (of: 'ours' | 'libvirts') =>
    meanings.flatMap((left) =>
      meanings.filter((right) => left[of] === right[of]).map((right) => `${left.value} = ${right.value}`),
    )
  expect(isEqual('ours')).toEqual(isEqual('libvirts'))
})

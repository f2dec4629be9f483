import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { allDevices, eachDevice, list, type AnyDevice } from './device.ts'
import { duplicate, invalid } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const disk = (dev: string, bus: 'sata' | 'ide' | 'scsi', address: object): Domain => ({
  devices: { disks: [{ device: 'cdrom', target: { dev, bus }, address }] },
})

const scsiDevice = (model: 'lsilogic' | 'virtio-scsi'): Domain => ({
  devices: {
    controllers: [{ type: 'scsi', index: 0, model }],
    hostdevs: [
      {
        type: 'scsi',
        source: { adapter: { name: 'scsi_host0' }, address: { bus: 0, target: 0, unit: 0 } },
        address: { type: 'drive', target: 1 },
      },
    ],
  },
})

/** Buses whose disks have an address of type drive. */
const driveBuses = ['ide', 'sata', 'scsi', 'fdc']

const diskAddressType = eachDevice('disks')(
  'disk-address-type',
  'The type of the address of a disk must fit its bus: `drive` on IDE, SATA, SCSI and floppy, `usb` on USB.',
  ({ target, address }, at) => {
    const { bus } = target ?? {}
    if (bus === undefined || address?.type === undefined) return []
    const { type } = address
    const allowed = driveBuses.includes(bus)
      ? ['drive']
      : bus === 'usb'
        ? ['usb']
        : bus === 'virtio'
          ? ['pci', 'virtio-mmio', 'ccw']
          : undefined
    if (!allowed || allowed.includes(type)) return []
    return [invalid(`${at}.address.type`, type, `must be ${allowed[0]} on bus ${bus}`)]
  },
  example(disk('sda', 'sata', { type: 'pci', slot: 7 }), disk('sda', 'sata', { type: 'drive', unit: 1 })),
)

/** The highest bus and target on each bus. libvirt accepts any unit. */
const limits: { readonly [bus: string]: { readonly bus: number; readonly target: number } } = {
  ide: { bus: Infinity, target: 0 },
  sata: { bus: 0, target: 0 },
  fdc: { bus: 0, target: 0 },
  scsi: { bus: 0, target: Infinity },
}

/** SCSI controllers with a single target. */
const narrowScsi = new Set(['lsilogic', 'auto'])

const diskAddressRange = eachDevice('disks')(
  'disk-address-range',
  'A drive address must be within the limits of its bus: SATA, SCSI and floppy have one bus, all but SCSI one target.',
  ({ target, address }, at, { domain }) => {
    const range = limits[target?.bus ?? '']
    if (!range || address?.type !== 'drive') return []
    const controller = list(domain, 'controllers').find(
      ({ type, index }) => type === 'scsi' && numberOf(index) === (numberOf(address.controller) ?? 0),
    )
    const isNarrow = narrowScsi.has(controller?.model ?? '')
    const findings: Finding[] = []
    const check = (key: 'bus' | 'target', max: number): void => {
      const value = numberOf(address[key]) ?? 0
      if (value > max) findings.push(invalid(`${at}.address.${key}`, value, `must be ${max} on bus ${target?.bus}`))
    }
    if (target?.bus === 'fdc' && (numberOf(address.controller) ?? 0) > 0) {
      findings.push(
        invalid(`${at}.address.controller`, address.controller, 'must be 0: a VM has one floppy controller'),
      )
    }
    check('bus', range.bus)
    check('target', isNarrow ? 0 : range.target)
    return findings
  },
  example(disk('sda', 'sata', { type: 'drive', bus: 1 }), disk('sda', 'sata', { type: 'drive', unit: 1 })),
)

/** The schema of libvirt allows two digits. */
const maxController = 99

const hostdevTarget = eachDevice('hostdevs')(
  'hostdev-address-range',
  'A SCSI host device on a controller with a single target must be target 0.',
  ({ type, address }, at, { domain }) => {
    if (type !== 'scsi' || address?.type !== 'drive' || (numberOf(address.target) ?? 0) === 0) return []
    const controller = list(domain, 'controllers').find(
      (one) => one.type === 'scsi' && numberOf(one.index) === (numberOf(address.controller) ?? 0),
    )
    return narrowScsi.has(controller?.model ?? '')
      ? [invalid(`${at}.address.target`, address.target, `must be 0 on a ${controller?.model}`)]
      : []
  },
  example(scsiDevice('lsilogic'), scsiDevice('virtio-scsi')),
)

const addressController: Rule = {
  id: 'address-controller',
  description: 'The controller of an address must be at most 99, because libvirt adds all controllers below it.',
  about: ['controller'],
  *check({ domain }) {
    for (const { at, device } of allDevices(domain)) {
      const number = numberOf(device.address?.controller)
      if (number !== undefined && number > maxController) {
        yield invalid(`${at}.address.controller`, number, `must be at most ${maxController}`)
      }
    }
  },
  example: example(
    disk('sda', 'scsi', { type: 'drive', controller: 100 }),
    disk('sda', 'scsi', { type: 'drive', controller: 1 }),
  ),
}

const driveAddressUnique: Rule = {
  id: 'drive-address-unique',
  description: 'The drive addresses of disks and SCSI host devices must be unique on a bus.',
  *check({ domain, originOf }) {
    const taken = new Map<string, string>()
    const drives: [string, string | undefined, AnyDevice][] = [
      ...list(domain, 'disks').map((one, index): [string, string | undefined, AnyDevice] => [
        `spec.domain.devices.disks[${index}]`,
        one.target?.bus,
        one,
      ]),
      ...list(domain, 'hostdevs').map((one, index): [string, string | undefined, AnyDevice] => [
        `spec.domain.devices.hostdevs[${index}]`,
        one.type === 'scsi' ? 'scsi' : undefined,
        one,
      ]),
    ]
    for (const [at, bus, { address }] of drives) {
      if (bus === undefined || address?.type !== 'drive') continue
      const place = [address.controller, address.bus, address.target, address.unit].map((part) => numberOf(part) ?? 0)
      const key = `${bus} ${place.join(':')}`
      const field = `${at}.address`
      const other = taken.get(key)
      if (other === undefined) {
        taken.set(key, field)
        continue
      }
      const isOurs = originOf(`${field}.unit`).by === 'default'
      const [refused, first] = isOurs ? [other, field] : [field, other]
      yield duplicate(
        refused,
        place.join(':'),
        `is already the address of ${first} on bus ${bus} (controller:bus:target:unit)`,
      )
    }
  },
  example: example(
    {
      devices: {
        disks: ['sda', 'sdb'].map((dev) => ({
          device: 'cdrom' as const,
          target: { dev, bus: 'sata' as const },
          address: { type: 'drive' as const, unit: 1 },
        })),
      },
    },
    {
      devices: {
        disks: ['sda', 'sdb'].map((dev, unit) => ({
          device: 'cdrom' as const,
          target: { dev, bus: 'sata' as const },
          address: { type: 'drive' as const, unit },
        })),
      },
    },
  ),
}

export const driveRules: readonly Rule[] = [
  diskAddressType,
  diskAddressRange,
  hostdevTarget,
  addressController,
  driveAddressUnique,
]

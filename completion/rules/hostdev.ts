import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, invalid, required, unsupported } from './finding.ts'
import { isAllocated } from './host-device.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Hostdev = DeviceOf<'hostdevs'>
type Source = NonNullable<Hostdev['source']>
type SourceAddress = NonNullable<NonNullable<Hostdev['source']>['address']>

const hostdevs = (...given: Hostdev[]): Domain => ({ devices: { hostdevs: given } })

const uuid = '53764d0e-85a0-42b4-af5c-2046b460b1dc'

/** Addresses of other types can have higher buses. */
const lastPciBus = 255

const hostdevSource = eachDevice('hostdevs')(
  'hostdev-source',
  'A host device must be identified as its type requires: PCI by address, USB by address or ids, a mediated device by UUID.',
  (hostdev, at, { spec }) => {
    const { type, source, model } = hostdev
    const { address, vendor, product } = source ?? {}
    const isFilledIn = isAllocated(hostdev, spec)
    switch (type) {
      case undefined:
        return [required(`${at}.type`, 'must be set: the kind of device')]
      case 'mdev':
        return [
          ...(address?.uuid === undefined && !isFilledIn
            ? [required(`${at}.source.address.uuid`, 'must be set for type mdev')]
            : []),
          ...(model === undefined ? [required(`${at}.model`, 'must be set for type mdev', 'e.g. vfio-pci')] : []),
        ]
      case 'pci':
        if (address === undefined)
          return isFilledIn ? [] : [required(`${at}.source.address`, 'must be set for type pci')]
        return (numberOf(address.bus) ?? 0) > lastPciBus
          ? [invalid(`${at}.source.address.bus`, address.bus, `must be at most ${lastPciBus}`)]
          : []
      case 'usb':
        if (vendor?.id !== undefined && numberOf(vendor.id) === 0)
          return [invalid(`${at}.source.vendor.id`, vendor.id, 'must not be 0')]
        if (address !== undefined && address.device === undefined)
          return [required(`${at}.source.address.device`, 'must be set together with bus')]
        return address === undefined && (vendor === undefined || product === undefined) && !isFilledIn
          ? [required(`${at}.source.address`, 'must be set for type usb, or vendor and product instead')]
          : []
      case 'scsi':
        return source?.protocol === 'iscsi' ? iscsiCauses(source, at) : scsiCauses(source, at)
      case 'scsi_host':
        if (source?.protocol === undefined)
          return [required(`${at}.source.protocol`, 'must be set for type scsi_host', 'vhost')]
        if (source.protocol !== 'vhost')
          return [unsupported(`${at}.source.protocol`, source.protocol, 'must be vhost for type scsi_host')]
        return source.wwpn === undefined
          ? [required(`${at}.source.wwpn`, 'must be set for type scsi_host')]
          : /^naa\.[0-9a-f]{16}$/i.test(source.wwpn)
            ? []
            : [invalid(`${at}.source.wwpn`, source.wwpn, 'must be naa. and 16 hexadecimal digits')]
      default:
        return []
    }
  },
  example(
    hostdevs({ type: 'mdev', model: 'vfio-pci', source: { address: { bus: 6, slot: 1 } } }),
    hostdevs({ type: 'mdev', model: 'vfio-pci', source: { address: { uuid } } }),
  ),
)

function* iscsiCauses({ name, host, hosts, auth }: Source, at: string): Iterable<Finding> {
  if (name === undefined) yield required(`${at}.source.name`, 'must be set for protocol iscsi')
  const count = hosts?.length ?? (host ? 1 : 0)
  if (count !== 1) yield required(`${at}.source.hosts`, 'must have one server for protocol iscsi')
  const kind = auth?.secret?.type
  if (kind !== undefined && kind !== 'iscsi')
    yield invalid(`${at}.source.auth.secret.type`, kind, 'must be iscsi for protocol iscsi', 'did you mean "iscsi"?')
}

function* scsiCauses(source: Source | undefined, at: string): Iterable<Finding> {
  if (source?.adapter?.name === undefined) yield required(`${at}.source.adapter.name`, 'must be set for type scsi')
  for (const key of ['bus', 'target', 'unit'] as const) {
    if (source?.address?.[key] === undefined)
      yield required(`${at}.source.address.${key}`, 'must be set for type scsi: the unit of the adapter')
  }
}

const addressTypes: { readonly [type: string]: readonly string[] } = {
  pci: ['pci', 'unassigned'],
  mdev: ['pci'],
  usb: ['usb'],
  scsi: ['drive'],
  scsi_host: ['pci', 'ccw'],
}

const hostdevAddress = eachDevice('hostdevs')(
  'hostdev-address-type',
  'The type of the address of a host device must fit its type.',
  ({ type, address }, at) => {
    const allowed = addressTypes[type ?? '']
    if (!allowed || address?.type === undefined || allowed.includes(address.type)) return []
    return [invalid(`${at}.address.type`, address.type, `must be ${allowed[0]} for type ${type}`)]
  },
  example(
    hostdevs({ type: 'mdev', model: 'vfio-pci', source: { address: { uuid } }, address: { type: 'drive' } }),
    hostdevs({ type: 'mdev', model: 'vfio-pci', source: { address: { uuid } }, address: { type: 'pci', slot: 9 } }),
  ),
)

const pciName = ({ domain, bus, slot, function: part }: SourceAddress): string =>
  [domain, bus, slot, part].map((number) => numberOf(number) ?? 0).join(':')

/** Identifies the device of the host; undefined if the fields do not. */
const identityOf = ({ type, source }: Hostdev): string | undefined => {
  const { address, vendor, product, adapter, name, host, hosts, wwpn } = source ?? {}
  switch (type) {
    case 'pci':
      return address && `pci ${pciName(address)}`
    case 'mdev':
      return address?.uuid && `mdev ${address.uuid}`
    case 'usb':
      return address?.bus === undefined
        ? vendor?.id === undefined
          ? undefined
          : `usb ids ${numberOf(vendor.id)}:${numberOf(product?.id)}`
        : `usb ${numberOf(address.bus)}:${numberOf(address.device) ?? address.port}`
    case 'scsi':
      return source?.protocol === 'iscsi'
        ? `iscsi ${JSON.stringify(host ?? hosts)} ${name}`
        : adapter?.name &&
            `scsi ${adapter.name} ${[address?.bus, address?.target, address?.unit].map((one) => numberOf(one) ?? 0).join(':')}`
    case 'scsi_host':
      return wwpn && `scsi_host ${wwpn}`
    default:
      return undefined
  }
}

const hostdevUnique: Rule = {
  id: 'hostdev-unique',
  description: 'A device of the host must be passed through once, as a host device or as an interface.',
  about: ['hostdevs', 'interfaces'],
  *check({ domain }) {
    const seen = new Map<string, string>()
    const devices: [string, string | undefined][] = [
      ...list(domain, 'hostdevs').map((one, index): [string, string | undefined] => [
        `spec.domain.devices.hostdevs[${index}].source`,
        identityOf(one),
      ]),
      ...list(domain, 'interfaces').map(({ type, source }, index): [string, string | undefined] => [
        `spec.domain.devices.interfaces[${index}].source`,
        type === 'hostdev' && source?.address && source.address.slot !== undefined
          ? `pci ${pciName(source.address)}`
          : undefined,
      ]),
    ]
    for (const [at, identity] of devices) {
      if (identity === undefined) continue
      const other = seen.get(identity)
      if (other === undefined) seen.set(identity, at)
      else yield duplicate(at, identity, `is already passed through by ${other}`)
    }
  },
  example: example(
    hostdevs(...[1, 1].map((slot): Hostdev => ({ type: 'pci', source: { address: { bus: 6, slot } } }))),
    hostdevs(...[1, 2].map((slot): Hostdev => ({ type: 'pci', source: { address: { bus: 6, slot } } }))),
  ),
}

export const hostdevRules: readonly Rule[] = [hostdevSource, hostdevAddress, hostdevUnique]

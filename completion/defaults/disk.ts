import { diskIndex } from '../../api/domain/order.ts'
import { each, fill, type Addition, type Context, type DeviceOf, type Rule } from './rule.ts'

type Disk = DeviceOf<'disks'>
type Source = NonNullable<Disk['source']>

export const diskType = each('disks')('disk-type', 'The type of a disk is `file`.', () => ({ type: 'file' }))

export const diskDevice = each('disks')('disk-device', 'A disk is a hard disk (`disk`).', () => ({ device: 'disk' }))

/** The prefixes of target names on each bus. */
const busOfPrefix: readonly (readonly [string, NonNullable<NonNullable<Disk['target']>['bus']>])[] = [
  ['hd', 'ide'],
  ['sd', 'scsi'],
  ['vd', 'virtio'],
]

export const diskBus = each('disks')(
  'disk-bus',
  'The target name determines the bus of a disk: `hd` is IDE, `sd` is SCSI, `vd` is virtio and any other is IDE. A floppy drive is on `fdc`.',
  ({ target, device }) => {
    if (!target) return undefined
    if (device === 'floppy') return { target: { bus: 'fdc' } }
    const known = busOfPrefix.find(([prefix]) => target.dev?.startsWith(prefix))
    return { target: { bus: known?.[1] ?? 'ide' } }
  },
)

export const diskDriver = each('disks')(
  'disk-driver',
  'The driver of a disk is QEMU and its format is raw; a libvirt storage pool knows the format of its volumes, and what the guest writes to a volume of kind `image` is stored in qcow2.',
  (disk, _, context) => ({ driver: { name: 'qemu', ...formatOf(disk, context) } }),
)

function formatOf({ type, source }: Disk, { imageVolumes }: Context): { readonly type?: 'raw' | 'qcow2' } {
  if (type !== 'volume') return { type: 'raw' }
  if (source?.pool !== undefined) return {}
  return { type: imageVolumes?.has(source?.volume ?? '') === true ? 'qcow2' : 'raw' }
}

export const diskReadonly = each('disks')('disk-readonly', 'A CD-ROM is read-only.', ({ device }) =>
  device === 'cdrom' ? { readonly: {} } : undefined,
)

export const nvmeManaged = each('disks')(
  'nvme-managed',
  'An NVMe disk of the host is managed: libvirt detaches it from its driver.',
  ({ type, source }) => (type === 'nvme' && source ? { source: { managed: true } } : undefined),
)

export const diskSnapshot = each('disks')(
  'disk-snapshot',
  'A `vhostuser` disk is excluded from snapshots.',
  ({ type }) => (type === 'vhostuser' ? { snapshot: 'no' } : undefined),
)

/** The standard port of each protocol. */
const standardPorts: { readonly [protocol: string]: number } = {
  http: 80,
  https: 443,
  ftp: 21,
  ftps: 990,
  tftp: 69,
  iscsi: 3260,
  nbd: 10809,
  gluster: 24007,
  ssh: 22,
  sheepdog: 7000,
  vxhs: 9999,
}

type Host = NonNullable<Source['host']>

const hasPort = ({ transport }: Host): boolean => transport === undefined || transport === 'tcp' || transport === 'rdma'

const sourceAdditions = ({ protocol, host, hosts = [], encryption }: Source): Addition[] => {
  const port = standardPorts[protocol ?? '']
  const fillPort = (one: Host): Addition[] => (port !== undefined && hasPort(one) ? [fill(one, { port })] : [])
  return [
    ...(host ? fillPort(host) : []),
    ...hosts.flatMap(fillPort),
    ...(encryption?.format === 'luks' ? [fill(encryption, { engine: 'qemu' as const })] : []),
  ]
}

interface Image {
  readonly source?: Source | undefined
  readonly backingStore?: Image | undefined
}

/** The sources of disks and of their backing stores. */
export const imagesOf = (disks: readonly Image[] = []): readonly Source[] => {
  const found: Source[] = []
  for (const disk of disks) {
    for (let image: Image | undefined = disk; image; image = image.backingStore) {
      if (image.source) found.push(image.source)
    }
  }
  return found
}

export const diskSource: Rule = {
  name: 'disk-source',
  description: 'The port of a server is the standard port of its protocol; QEMU decrypts LUKS images.',
  apply: ({ devices, os }) => [
    ...(os?.nvram?.source ? sourceAdditions(os.nvram.source) : []),
    ...(devices?.disks ?? []).flatMap(({ encryption }) =>
      encryption?.format === 'luks' ? [fill(encryption, { engine: 'qemu' })] : [],
    ),
    ...imagesOf(devices?.disks).flatMap(sourceAdditions),
  ],
}

type DriveAddress = { controller: number; bus: number; target: number; unit: number }

/** The address of the disk with this number on its bus, given the number of disks per controller. */
const placeOnBus = (bus: string | undefined, number: number): DriveAddress | undefined => {
  switch (bus) {
    case 'scsi':
      return { controller: Math.floor(number / scsiUnits), bus: 0, target: 0, unit: number % scsiUnits }
    case 'ide':
      return { controller: Math.floor(number / 4), bus: Math.floor((number % 4) / 2), target: 0, unit: number % 2 }
    case 'sata':
      return { controller: Math.floor(number / 6), bus: 0, target: 0, unit: number % 6 }
    case 'fdc':
      return { controller: Math.floor(number / 2), bus: 0, target: 0, unit: number % 2 }
    default:
      return undefined
  }
}

/** A narrow SCSI bus has eight units, one of which is the controller. */
const scsiUnits = 7

export const diskAddress = each('disks')(
  'disk-address',
  'The letter of the target name determines the address of a disk on its bus: two disks per IDE cable, six per SATA controller, seven per SCSI controller, two floppy drives.',
  ({ target, address }) => {
    if (address?.type !== undefined && address.type !== 'drive') return undefined
    if (address?.type === 'drive') return { address: { controller: 0, bus: 0, target: 0, unit: 0 } }
    const number = diskIndex(target?.dev ?? '')
    const place = number < 0 ? undefined : placeOnBus(target?.bus, number)
    return place && { address: { type: 'drive', ...place } }
  },
)

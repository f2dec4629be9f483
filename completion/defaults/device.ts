import { numberOf } from './reading.ts'
import { each, fill, list, rule, type Addition, type Rule } from './rule.ts'

export const panicModel = each('panics')('panic-model', 'The model of a panic device is `isa`.', () => ({
  model: 'isa',
}))

export const tpmModel = each('tpms')('tpm-model', 'The model of a TPM is `tpm-tis`.', () => ({ model: 'tpm-tis' }))

export const tpmVersion = each('tpms')(
  'tpm-version',
  'An emulated TPM has version 2.0 with the CRB interface, and version 1.2 with TIS.',
  ({ model, backend }) =>
    backend?.type === 'emulator' ? { backend: { version: model === 'tpm-crb' ? '2.0' : '1.2' } } : undefined,
)

export const vsockModel = rule(
  'vsock-model',
  'The model of a vsock device is `virtio`.',
  ({ devices }) => devices?.vsock && { devices: { vsock: { model: 'virtio' } } },
)

export const vsockCid = rule(
  'vsock-cid',
  'The context ID of a vsock device is assigned at start unless its address is set.',
  ({ devices }) =>
    devices?.vsock && { devices: { vsock: { cid: { auto: devices.vsock.cid?.address === undefined } } } },
)

export const tpmDevice = each('tpms')(
  'tpm-device',
  'A TPM that is passed through is the first one of the node, /dev/tpm0.',
  ({ backend }) => (backend?.type === 'passthrough' ? { backend: { device: { path: '/dev/tpm0' } } } : undefined),
)

export const rngSource = each('rngs')('rng-source', 'Random numbers come from /dev/random.', ({ backend }) =>
  backend?.model === 'random' ? { backend: { value: '/dev/random' } } : undefined,
)

export const mdevDisplay = each('hostdevs')(
  'mdev-display',
  'The display of a mediated device is off.',
  ({ type, model }) => (type === 'mdev' && model === 'vfio-pci' ? { display: false } : undefined),
)

export const soundStreams = each('sounds')('sound-streams', 'A virtio sound card has two streams.', ({ model }) =>
  model === 'virtio' ? { streams: 2 } : undefined,
)

export const pstorePath = rule(
  'pstore-path',
  'The crash data of the guest is stored in a file that is named after the VM.',
  ({ devices, name }) =>
    devices?.pstore && { devices: { pstore: { path: `/var/lib/libvirt/qemu/nvram/${name ?? ''}_PSTORE.raw` } } },
)

export const shmemSize = each('shmems')('shmem-size', 'Shared memory without a server is 4 MiB.', ({ size, server }) =>
  size === undefined && !server ? { size: { unit: 'M', value: 4 } } : undefined,
)

export const shmemMsi = each('shmems')(
  'shmem-msi',
  'Shared memory with a doorbell or a server uses ioeventfd: an interrupt does not stop the CPU.',
  ({ server, model }) => (server || model?.type === 'ivshmem-doorbell' ? { msi: { ioeventfd: true } } : undefined),
)

export const filesystemAccess = each('filesystems')(
  'filesystem-access',
  'The access mode of a file system is `passthrough`: files are accessed as the user of QEMU.',
  ({ source }) => (source?.socket === undefined ? { accessmode: 'passthrough' } : undefined),
)

export const filesystemType = each('filesystems')(
  'filesystem-type',
  'The type of a file system is `mount`: a directory is shared. With `source.volume`, it is `volume`, which libvirt does not know.',
  ({ source }) => ({ type: source?.volume === undefined ? 'mount' : 'volume' }),
)

export const filesystemDriver = each('filesystems')(
  'filesystem-driver',
  'A volume of the VM is shared by virtiofs.',
  ({ type }) => (type === 'volume' ? { driver: { type: 'virtiofs' } } : undefined),
)

export const sharedMemory = rule(
  'shared-memory',
  'The memory of a VM that shares a volume with its guest is an anonymous file that virtiofsd can map, unless `memoryBacking.access` is set.',
  ({ devices, memoryBacking }) =>
    memoryBacking?.access?.mode === undefined && devices?.filesystems?.some(({ type }) => type === 'volume')
      ? { memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } } }
      : undefined,
)

export const hostdevManaged = each('hostdevs')(
  'hostdev-managed',
  'A host device is not managed: libvirt does not detach it from its driver.',
  () => ({ mode: 'subsystem', managed: false }),
)

export const redirdevBus = each('redirdevs')('redirdev-bus', 'The bus of a redirected device is `usb`.', () => ({
  bus: 'usb',
}))

export const redirdevChannel = each('redirdevs')(
  'redirdev-channel',
  'A device redirected by D-Bus uses the channel `org.qemu.usbredir`.',
  ({ type }) => (type === 'dbus' ? { source: { channel: 'org.qemu.usbredir' } } : undefined),
)

/** Units per controller, which SCSI host devices share with disks. */
const unitsOfController = 7

export const hostdevAddress: Rule = {
  name: 'hostdev-scsi-address',
  description: 'A SCSI host device gets the first free unit of the first SCSI controller that has one.',
  about: ['hostdevs'],
  *apply(domain) {
    const taken = new Set<string>()
    for (const { address } of [
      ...list(domain, 'disks').filter(({ target }) => target?.bus === 'scsi'),
      ...list(domain, 'hostdevs').filter(({ type }) => type === 'scsi'),
    ]) {
      if (address?.type !== 'drive' || (numberOf(address.bus) ?? 0) > 0 || (numberOf(address.target) ?? 0) > 0) continue
      taken.add(`${numberOf(address.controller) ?? 0} ${numberOf(address.unit) ?? 0}`)
    }
    const controllers = list(domain, 'controllers')
      .flatMap(({ type, index }) => (type === 'scsi' ? [numberOf(index) ?? 0] : []))
      .toSorted((a, b) => a - b)
    for (const hostdev of list(domain, 'hostdevs')) {
      if (hostdev.type !== 'scsi' || hostdev.address?.type !== undefined) continue
      const place = freeUnit(taken, controllers)
      taken.add(`${place.controller} ${place.unit}`)
      yield fill(hostdev, {
        address: { type: 'drive', controller: place.controller, bus: 0, target: 0, unit: place.unit },
      })
    }
  },
}

const freeUnit = (taken: ReadonlySet<string>, controllers: readonly number[]): { controller: number; unit: number } => {
  const next = controllers.length === 0 ? 0 : Math.max(...controllers) + 1
  for (const controller of [...controllers, next]) {
    for (let unit = 0; unit < unitsOfController; unit += 1) {
      if (!taken.has(`${controller} ${unit}`)) return { controller, unit }
    }
  }
  return { controller: next, unit: 0 }
}

export const ccidAddress: Rule = {
  name: 'ccid-address',
  description: 'A smart card gets the next slot of the first controller.',
  about: ['smartcards'],
  apply: (domain) => {
    const smartcards = list(domain, 'smartcards')
    let last = Math.max(
      -1,
      ...smartcards.map(({ address }) =>
        address?.type === 'ccid' && (numberOf(address.controller) ?? 0) === 0 ? (numberOf(address.slot) ?? 0) : -1,
      ),
    )
    return smartcards.flatMap((one): Addition[] => {
      if (one.address?.type !== undefined) return []
      last += 1
      return [fill(one, { address: { type: 'ccid', controller: 0, slot: last } })]
    })
  },
}

export const memoryAccess = each('memories')(
  'memory-access',
  'The access of `virtio-pmem` memory is `shared`: other users of the file see what the guest writes.',
  ({ model }) => (model === 'virtio-pmem' ? { access: 'shared' } : undefined),
)

export const memorySlot: Rule = {
  name: 'memory-slot',
  description: 'A memory module gets the first free slot.',
  about: ['memories'],
  apply: (domain) => {
    const isModule = (model: string | undefined): boolean => model === 'dimm' || model === 'nvdimm'
    const memories = list(domain, 'memories')
    const taken = new Set(
      memories.flatMap(({ address }) =>
        address?.type === 'dimm' && address.slot !== undefined ? [numberOf(address.slot)] : [],
      ),
    )
    return memories.flatMap((one): Addition[] => {
      if (!isModule(one.model) || one.address?.slot !== undefined) return []
      let slot = 0
      while (taken.has(slot)) slot += 1
      taken.add(slot)
      return [fill(one, { address: { type: 'dimm', slot } })]
    })
  },
}

import fc from 'fast-check'
import type { Domain } from '../../../api/domain/domain.ts'
import type { DeviceOf } from '../../../completion/defaults/rule.ts'
import { pci, usbAddress, virtioDevice } from './address.ts'
import { any, many, model, mostly, part, rarely, small, weighted } from './part.ts'

const filesystems = many(
  rarely(
    { type: fc.constant('mount'), source: fc.constant({ dir: '/srv' }), target: fc.constant({ dir: 'srv' }) },
    {
      accessmode: mostly('devices.filesystems.accessmode', 'passthrough', 'mapped', 'squash'),
      driver: part({ type: mostly('devices.filesystems.driver.type', 'path') }),
      readonly: fc.constant({}),
      address: pci,
    },
  ),
  2,
)

const inputs = many(
  rarely(
    { type: weighted([30, fc.constantFrom('mouse', 'tablet', 'keyboard')], [1, any('devices.inputs.type')]) },
    {
      bus: mostly('devices.inputs.bus', 'usb', 'virtio'),
      model: any('devices.inputs.model'),
      address: weighted([1, pci], [2, usbAddress]),
    },
  ),
)

const tpms = many(
  rarely(
    {
      backend: weighted(
        [
          3,
          rarely(
            { type: fc.constant('emulator') },
            { version: any('devices.tpms.backend.version'), persistentState: fc.boolean() },
          ),
        ],
        [1, fc.constant({ type: 'passthrough', device: { path: '/dev/tpm0' } })],
      ),
    },
    model('tpms', 'tpm-tis', 'tpm-crb'),
  ),
  1,
)

const hubs = many(rarely({ type: fc.constant('usb') }, { address: usbAddress }), 2)

const watchdogs = many(
  rarely(model('watchdogs', 'i6300esb'), {
    action: mostly('devices.watchdogs.action', 'reset', 'poweroff'),
    address: pci,
  }),
  1,
)

const memballoon = rarely(model('memballoon', 'virtio', 'none', 'virtio-non-transitional'), {
  autodeflate: fc.boolean(),
  freePageReporting: fc.boolean(),
  stats: part({ period: small(10) }),
  ...virtioDevice,
})

const rngs = many(
  rarely(
    {
      model: mostly('devices.rngs.model', 'virtio', 'virtio-transitional'),
      backend: weighted(
        [3, fc.constant({ model: 'random', value: '/dev/urandom' })],
        [1, fc.constant({ model: 'builtin' })],
        [1, fc.constant({ model: 'random' })],
      ),
    },
    { rate: part({ bytes: small(2000) }, { period: small(2000) }), ...virtioDevice },
  ),
  2,
)

const panics = many(
  rarely({}, { ...model('panics', 'isa', 'hyperv'), address: fc.constant({ type: 'isa', iobase: '0x505' }) }),
  1,
)

const shmems = many(
  rarely(
    { model: part({ type: mostly('devices.shmems.model.type', 'ivshmem-plain') }) },
    { size: fc.constantFrom({ unit: 'M', value: 4 }, { unit: 'M', value: 8 }), address: pci },
  ).map((made) => (index: number) => ({ name: `shmem${index}`, ...made })),
  2,
)

const iommu = rarely(model('iommu', 'intel', 'virtio'), {
  driver: part(
    {},
    {
      intremap: fc.boolean(),
      cachingMode: fc.boolean(),
      eim: fc.boolean(),
      iotlb: fc.boolean(),
      awBits: fc.constantFrom(39, 48, 50),
    },
  ),
  address: pci,
})

const vsock = rarely(
  {},
  {
    ...model('vsock', 'virtio'),
    cid: part({}, { auto: fc.boolean(), address: fc.integer({ min: 3, max: 5 }) }),
    ...virtioDevice,
  },
)

const cryptos = many(
  rarely(
    {
      model: fc.constant('virtio'),
      type: fc.constant('qemu'),
      backend: part(
        { model: mostly('devices.cryptos.backend.model', 'builtin') },
        { queues: fc.integer({ min: 1, max: 3 }) },
      ),
    },
    { address: pci },
  ),
  2,
)

const pstore = rarely(
  {
    backend: any('devices.pstore.backend'),
    size: weighted([9, fc.constant({ unit: 'KiB', value: 512 })], [1, fc.constant({ unit: 'KiB', value: 300 })]),
  },
  { address: pci, path: fc.constant('/tmp/pstore') },
)

export const otherDevices = {
  filesystems,
  inputs,
  tpms,
  hubs,
  watchdogs,
  memballoon,
  rngs,
  panics,
  shmems,
  iommu,
  vsock,
  cryptos,
  pstore,
}

type Input = DeviceOf<'inputs'>
type Iommu = NonNullable<NonNullable<Domain['devices']>['iommu']>

/** Keeps the model only on virtio, and the address only if it matches the bus. */
export const carefulInput = ({ model: stated, address, ...one }: Input): Input => ({
  ...one,
  ...(stated && one.bus === 'virtio' ? { model: stated } : {}),
  ...(address && ((one.bus === 'virtio' && address.type === 'pci') || (one.bus === 'usb' && address.type === 'usb'))
    ? { address }
    : {}),
})

/** Keeps the address only for virtio, and options only for Intel. */
export const carefulIommu = ({ driver, address, ...one }: Iommu): Iommu => ({
  ...one,
  ...(one.model === 'intel' && driver ? { driver } : {}),
  ...(one.model === 'virtio' && address ? { address } : {}),
})

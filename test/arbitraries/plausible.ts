import fc from 'fast-check'
import type { Domain } from '../../api/domain/domain.ts'
import { fieldAt } from '../field-at.ts'
import { scalars } from './domain.ts'

type Json = { readonly [key: string]: unknown }
type Parts = { readonly [key: string]: fc.Arbitrary<unknown> }

/**
 * Domains as somebody might write them: a machine, CPUs, memory, and devices of many kinds, whose parts mostly go together. The words come
 * from the description, so that a new one is tried as soon as it is described. Many are short, some fit nowhere: those must be refused.
 */
export const plausibleDomains = (): fc.Arbitrary<Domain> =>
  fc
    .tuple(
      rarely(
        {
          type: weighted([7, fc.constant('qemu')], [1, fc.constant('kvm')]),
          name: fc.constant('judged'),
          uuid: fc.constant('6f3c2a5e-8d1b-4c7f-9a2e-3b4d5c6e7f80'),
          memory: size,
          os,
          features,
        },
        {
          vcpu,
          currentMemory: size,
          cpu,
          clock,
          iothreads: fc.integer({ min: 0, max: 6 }),
          pm,
          memoryBacking,
          ...lifecycle,
        },
      ),
      devices,
      fc.integer({ min: 0, max: 9 }),
    )
    .map(([domain, list, carelessness]): Domain => {
      // Of the description's shape: its words and fields are where these are from.
      const made = { ...domain, devices: list } as Domain
      return carelessness === 0 ? made : withCare(made)
    })

type Devices = NonNullable<Domain['devices']>
type Item<K extends keyof Devices> = NonNullable<Devices[K]> extends readonly (infer I)[] ? I : never

/** Without what goes with another kind of device or machine. */
const withCare = (domain: Domain): Domain => {
  const isQ35 = domain.os?.type?.machine?.includes('q35') === true
  const threads = Number(domain.iothreads ?? 0)
  const fits = ({ type, index, model = 'auto' }: Item<'controllers'>): boolean =>
    ((type !== 'ide' || !isQ35) && type !== 'pci') ||
    ((model.endsWith('-root') ? index === 0 : Number(index ?? 1) > 0) && model.startsWith('pci-') !== isQ35)
  const { controllers, disks, interfaces, consoles, ...others } = domain.devices ?? {}
  const devices: Devices = {
    ...others,
    ...(controllers ? { controllers: withRoot(controllers.filter(fits), isQ35) } : {}),
    ...(disks ? { disks: disks.map((one) => carefulDisk(one, threads, isQ35)) } : {}),
    ...(interfaces ? { interfaces: interfaces.map(carefulInterface) } : {}),
    ...(consoles ? { consoles: consoles.map(carefulConsole) } : {}),
  }
  return { ...domain, devices }
}

/** Whoever writes PCI controllers begins with the root. */
const withRoot = (controllers: readonly Item<'controllers'>[], isQ35: boolean): Item<'controllers'>[] => {
  const needsRoot =
    controllers.some(({ type }) => type === 'pci') && !controllers.some(({ model }) => model?.endsWith('-root'))
  return needsRoot
    ? [{ type: 'pci', index: 0, model: isQ35 ? 'pcie-root' : 'pci-root' }, ...controllers]
    : [...controllers]
}

/** Only the first is a serial port, and only virtio has addresses. */
const carefulConsole = ({ address, ...one }: Item<'consoles'>, index: number): Item<'consoles'> => {
  const target = index > 0 ? { ...one.target, type: 'virtio' as const } : one.target
  return { ...one, ...(target ? { target } : {}), ...(address && target?.type === 'virtio' ? { address } : {}) }
}

const carefulDisk = (
  { model, driver, address, ...disk }: Item<'disks'>,
  threads: number,
  isQ35: boolean,
): Item<'disks'> => {
  const bus = disk.target?.bus ?? (disk.target?.dev?.startsWith('vd') ? 'virtio' : 'ide')
  const { iommu: _i, ats: _a, packed: _p, queues: _q, ioeventfd: _e, iothread, ...plain } = driver ?? {}
  const served = bus === 'virtio' ? driver : plain
  const kinds: readonly (string | undefined)[] = bus === 'virtio' ? ['pci'] : bus === 'usb' ? ['usb'] : ['drive']
  const target = disk.target && isQ35 && bus === 'ide' ? { target: { ...disk.target, bus: 'sata' } } : {}
  return {
    ...disk,
    ...target,
    ...(model !== undefined && bus === 'virtio' ? { model } : {}),
    ...(driver ? { driver: Number(iothread ?? 0) > threads ? plain : served } : {}),
    ...(address && kinds.includes(address.type) ? { address } : {}),
  } as Item<'disks'>
}

const carefulInterface = ({ driver, ...one }: Item<'interfaces'>): Item<'interfaces'> =>
  driver && (one.model?.type?.startsWith('virtio') ?? false) ? { driver, ...one } : one

/** An object that has all of `always` and any of the others. */
const part = (always: Parts, ...sometimes: Parts[]): fc.Arbitrary<Json> =>
  fc.record(Object.assign({}, always, ...sometimes), { requiredKeys: Object.keys(always) })

/** An object that has each of the others one time in six. */
const rarely = (always: Parts, seldom: Parts): fc.Arbitrary<Json> =>
  fc
    .record({
      ...always,
      ...Object.fromEntries(
        Object.entries(seldom).map(([key, value]) => [
          key,
          fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value }),
        ]),
      ),
    })
    .map((made) => Object.fromEntries(Object.entries(made).filter(([, value]) => value !== undefined)))

const weighted = (...choices: [number, fc.Arbitrary<unknown>][]): fc.Arbitrary<unknown> =>
  fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })))

/** Any value of the field at this path. */
const any = (path: string): fc.Arbitrary<unknown> => {
  const field = fieldAt(path)
  if (field === undefined || !('scalar' in field)) throw new Error(`the description has no value at ${path}`)
  return scalars(field.scalar)
}

const small = (max: number): fc.Arbitrary<number> => fc.integer({ min: 0, max })

const size = weighted(
  [4, part({ unit: fc.constantFrom('KiB', 'MiB', 'GiB'), value: fc.integer({ min: 1, max: 4096 }) })],
  [2, fc.constant({ unit: 'MiB', value: 512 })],
  [1, fc.constant({ value: 219136 })],
)

const machines = weighted(
  [9, fc.constant('pc')],
  [9, fc.constant('q35')],
  [1, fc.constantFrom('pc-i440fx-6.2', 'pc-q35-5.2', 'pc-q35-8.1', 'pc-i440fx-2.12')],
  [1, fc.constantFrom('microvm', 'isapc')],
)

const os = rarely(
  { type: part({ os: fc.constant('hvm'), machine: machines }, { arch: fc.constant('x86_64') }) },
  {
    boots: fc.array(part({ dev: any('os.boots.dev') }), { minLength: 1, maxLength: 2 }),
    bootmenu: part({ enable: fc.boolean() }, { timeout: small(65_535) }),
    firmware: fc.constant('efi'),
    smbios: part({ mode: fc.constantFrom('host', 'emulate') }),
    bios: part({}, { useserial: fc.boolean(), rebootTimeout: fc.integer({ min: -1, max: 65_535 }) }),
  },
)

const vcpu = fc
  .tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 0, max: 9 }))
  .map(([value, current]) => (current === 0 || current > value ? { value } : { value, current }))

const cpu = rarely(
  { mode: weighted([3, fc.constant('custom')], [2, any('cpu.mode')]) },
  {
    model: part(
      { value: fc.constantFrom('qemu64', 'Nehalem', 'Haswell', 'EPYC', 'no-such') },
      { fallback: any('cpu.model.fallback') },
    ),
    match: any('cpu.match'),
    check: any('cpu.check'),
    migratable: fc.boolean(),
    topology: part({
      sockets: fc.integer({ min: 1, max: 3 }),
      cores: fc.integer({ min: 1, max: 3 }),
      threads: fc.integer({ min: 1, max: 2 }),
    }),
    features: fc.array(
      part({ name: fc.constantFrom('vmx', 'aes', 'pcid', 'nosuch'), policy: any('cpu.features.policy') }),
      { minLength: 1, maxLength: 2 },
    ),
    numa: part({
      cells: fc
        .array(part({ memory: fc.constantFrom(262144, 524288) }, { cpus: fc.constantFrom('0', '1', '0-1', '2-3') }), {
          minLength: 1,
          maxLength: 2,
        })
        .map((cells) => cells.map(({ memory, ...cell }) => ({ ...cell, memory, unit: 'KiB' }))),
    }),
    cache: part({ mode: any('cpu.cache.mode') }, { level: any('cpu.cache.level') }),
    maxphysaddr: part({ mode: any('cpu.maxphysaddr.mode') }, { bits: small(64) }),
  },
)

const features = rarely(
  { acpi: fc.constant({}) },
  {
    apic: part({}, { eoi: fc.boolean() }),
    pae: fc.constant({}),
    pmu: part({ state: fc.boolean() }),
    vmport: part({ state: fc.boolean() }),
    smm: part({ state: fc.boolean() }),
    vmcoreinfo: part({ state: fc.boolean() }),
    kvm: part({}, { hidden: part({ state: fc.boolean() }) }),
    hyperv: rarely(
      { mode: any('features.hyperv.mode') },
      {
        relaxed: part({ state: fc.boolean() }),
        vapic: part({ state: fc.boolean() }),
        spinlocks: part({ state: fc.boolean() }, { retries: small(8191) }),
      },
    ),
    ioapic: part({ driver: any('features.ioapic.driver') }),
  },
)

const clock = rarely(
  {
    offset: weighted(
      [9, fc.constantFrom('utc', 'localtime')],
      [1, fc.constantFrom('variable', 'timezone', 'absolute')],
    ),
  },
  {
    timers: fc.array(
      rarely(
        {
          name: weighted(
            [5, fc.constantFrom('rtc', 'pit', 'hpet', 'kvmclock', 'hypervclock', 'tsc')],
            [1, any('clock.timers.name')],
          ),
        },
        { present: fc.boolean(), tickpolicy: any('clock.timers.tickpolicy'), track: any('clock.timers.track') },
      ),
      { minLength: 1, maxLength: 3 },
    ),
    adjustment: any('clock.adjustment'),
  },
)

const pm = part({}, { suspendToMem: part({ enabled: fc.boolean() }), suspendToDisk: part({ enabled: fc.boolean() }) })

const memoryBacking = rarely(
  {},
  {
    hugepages: fc.constant({}),
    nosharepages: fc.constant({}),
    locked: fc.constant({}),
    source: part({ type: any('memoryBacking.source.type') }),
    access: part({ mode: any('memoryBacking.access.mode') }),
    allocation: part({ mode: any('memoryBacking.allocation.mode') }),
  },
)

const lifecycle: Parts = {
  onPoweroff: weighted([5, fc.constantFrom('destroy', 'restart')], [1, any('onPoweroff')]),
  onReboot: weighted([5, fc.constantFrom('destroy', 'restart')], [1, any('onReboot')]),
  onCrash: any('onCrash'),
}

const pci = weighted(
  [3, part({ type: fc.constant('pci'), slot: fc.integer({ min: 1, max: 9 }) }, { multifunction: fc.boolean() })],
  [
    1,
    part(
      { type: fc.constant('pci'), slot: small(9) },
      { bus: small(3), function: small(7), multifunction: fc.boolean(), domain: fc.constant('0x0000') },
    ),
  ],
  [1, fc.constant({ type: 'pci' })],
)

const drive = part({
  type: fc.constant('drive'),
  controller: small(1),
  bus: small(1),
  target: small(1),
  unit: small(7),
})

const usbAddress = part({ type: fc.constant('usb'), bus: small(1) }, { port: fc.constantFrom('1', '2', '1.1') })

const virtioSerial = part(
  { type: fc.constant('virtio-serial'), controller: weighted([5, fc.constant(0)], [1, small(1)]), bus: fc.constant(0) },
  { port: fc.constantFrom('0', '1', '2', '3') },
)

const virtioOptions: Parts = { iommu: fc.boolean(), ats: fc.boolean(), packed: fc.boolean() }

const bytes = (text: string, index: number): string => `${text}${index.toString(16).padStart(2, '0')}`

const busPrefixes: { readonly [bus: string]: string } = {
  virtio: 'vd',
  scsi: 'sd',
  sata: 'sd',
  usb: 'sd',
  ide: 'hd',
  fdc: 'fd',
}

const disk = fc
  .tuple(
    rarely(
      {
        bus: weighted(
          [20, fc.constantFrom('virtio', 'scsi', 'sata', 'usb', 'ide', 'virtio', 'fdc')],
          [1, any('devices.disks.target.bus')],
        ),
      },
      { addressKind: fc.constantFrom('pci', 'drive', 'usb') },
    ),
    rarely(
      {},
      {
        device: fc.constantFrom('disk', 'cdrom', 'cdrom', 'lun', 'floppy'),
        model: any('devices.disks.model'),
        readonly: fc.constant({}),
        shareable: fc.constant({}),
        serial: fc.constantFrom('abc', 'WD-1234'),
        boot: part({ order: fc.integer({ min: 1, max: 4 }) }),
        driver: rarely(
          { name: fc.constant('qemu') },
          {
            type: fc.constantFrom('raw', 'qcow2', 'vmdk'),
            cache: any('devices.disks.driver.cache'),
            io: any('devices.disks.driver.io'),
            discard: any('devices.disks.driver.discard'),
            detectZeroes: any('devices.disks.driver.detectZeroes'),
            iothread: fc.integer({ min: 1, max: 3 }),
            queues: fc.integer({ min: 1, max: 4 }),
            ioeventfd: fc.boolean(),
            ...virtioOptions,
          },
        ),
        iotune: fc.oneof(
          part({ totalBytesSec: small(10_000) }, { totalIopsSec: small(1000) }),
          part({ readBytesSec: small(10_000) }, { totalIopsSec: small(1000) }),
        ),
        blockio: part(
          {},
          { logicalBlockSize: fc.constantFrom(512, 4096), physicalBlockSize: fc.constantFrom(512, 4096) },
        ),
      },
    ),
    weighted(
      [4, fc.constant({ type: 'file', source: { file: '/disks/a.img' } })],
      [1, fc.constant({ type: 'block', source: { dev: '/dev/loop0' } })],
      [1, fc.constant({ type: 'network', source: { protocol: 'nbd', host: { name: 'example.org', port: 10809 } } })],
      [
        1,
        fc.constant({
          type: 'network',
          source: { protocol: 'iscsi', name: 'iqn.2001-04.org.example:a/1', host: { name: 'example.org', port: 3260 } },
        }),
      ],
      [1, fc.constant({ type: 'file' })],
    ),
    fc.record({ pci, drive, usb: usbAddress }),
    small(30),
  )
  .map(([{ bus, addressKind }, rest, source, addresses, other]) => (index: number): Json => ({
    ...Object(source),
    ...rest,
    target: {
      // Now and then two disks have one name.
      dev: `${busPrefixes[String(bus)] ?? 'vd'}${String.fromCodePoint(97 + (other === 0 ? 0 : index))}`,
      ...(other % 2 === 0 || bus === 'usb' || bus === 'sata' ? { bus } : {}),
    },
    ...(addressKind === undefined
      ? {}
      : { address: new Map<unknown, unknown>(Object.entries(addresses)).get(addressKind) }),
  }))

const controller = weighted(
  [
    2,
    rarely(
      { type: fc.constant('usb') },
      {
        index: small(2),
        model: fc.constantFrom(
          'piix3-uhci',
          'qemu-xhci',
          'nec-xhci',
          'ehci',
          'ich9-ehci1',
          'ich9-uhci1',
          'none',
          'pci-ohci',
        ),
        ports: small(16),
        address: pci,
      },
    ),
  ],
  [
    2,
    rarely(
      { type: fc.constant('scsi') },
      {
        index: small(2),
        model: fc.constantFrom('virtio-scsi', 'lsilogic', 'lsisas1068', 'auto', 'buslogic', 'virtio-transitional'),
        address: pci,
        driver: part({}, { queues: small(4), iothread: fc.integer({ min: 1, max: 3 }) }),
      },
    ),
  ],
  [
    3,
    rarely(
      { type: fc.constant('pci') },
      {
        index: small(4),
        model: fc.constantFrom(
          'pci-bridge',
          'pcie-root-port',
          'pcie-to-pci-bridge',
          'dmi-to-pci-bridge',
          'pcie-switch-upstream-port',
          'pcie-switch-downstream-port',
          'pcie-expander-bus',
          'pci-expander-bus',
          'pci-root',
          'pcie-root',
        ),
        address: pci,
      },
    ),
  ],
  [
    1,
    rarely(
      { type: fc.constant('virtio-serial') },
      { index: small(1), ports: small(40), vectors: small(8), address: pci },
    ),
  ],
  [1, rarely({ type: fc.constantFrom('sata', 'ide', 'fdc', 'ccid') }, { index: small(1), address: pci })],
  [1, rarely({ type: any('devices.controllers.type') }, { index: small(1), model: any('devices.controllers.model') })],
).map((made) => () => made)

const networkInterface = fc
  .tuple(
    weighted(
      [4, fc.constant({ type: 'user' })],
      [2, fc.constant({ type: 'bridge', source: { bridge: 'br0' } })],
      [1, fc.constant({ type: 'network', source: { network: 'default' } })],
      [1, fc.constant({ type: 'ethernet' })],
      [1, fc.constant({ type: 'direct', source: { dev: 'eth0', mode: 'vepa' } })],
      [1, fc.constant({ type: 'vhostuser', source: { type: 'unix', path: '/tmp/v.sock', mode: 'client' } })],
    ),
    rarely(
      {},
      {
        model: part({
          type: fc.constantFrom(
            'virtio',
            'e1000',
            'e1000e',
            'rtl8139',
            'ne2k_pci',
            'virtio-non-transitional',
            'virtio-transitional',
            'igb',
          ),
        }),
        driver: part(
          {},
          {
            name: fc.constantFrom('vhost', 'qemu'),
            queues: small(4),
            txmode: any('devices.interfaces.driver.txmode'),
            rxQueueSize: fc.constantFrom(256, 1000),
            ...virtioOptions,
          },
        ),
        boot: part({ order: fc.integer({ min: 1, max: 4 }) }),
        link: part({ state: any('devices.interfaces.link.state') }),
        mtu: part({ size: fc.constantFrom(1500, 9000) }),
        rom: fc.oneof(part({ bar: fc.boolean() }), part({ enabled: fc.boolean() })),
        address: pci,
      },
    ),
  )
  .map(([source, rest]) => (index: number): Json => ({
    ...Object(source),
    mac: { address: bytes('52:54:00:12:34:', index) },
    ...rest,
  }))

const chardev = weighted(
  [4, fc.constant({ type: 'pty' })],
  [1, fc.constant({ type: 'null' })],
  [1, fc.constant({ type: 'file', source: { path: '/tmp/serial.log' } })],
  [1, fc.constant({ type: 'unix', source: { mode: 'bind', path: '/tmp/serial.sock' } })],
  [1, fc.constant({ type: 'tcp', source: { mode: 'bind', host: '127.0.0.1', service: '2222' } })],
  [1, fc.constant({ type: 'stdio' })],
  [1, fc.constant({ type: 'vc' })],
)

const character = (rest: fc.Arbitrary<Json>): fc.Arbitrary<Json> =>
  fc.tuple(chardev, rest).map(([source, other]) => ({ ...Object(source), ...other }))

const model = (kind: string): Parts => ({ model: any(`devices.${kind}.model`) })

const virtioDevice: Parts = { address: pci, driver: part({}, virtioOptions) }

/** A kind of device: some of them, each made by its number among them. */
const many = (device: fc.Arbitrary<unknown>, maxLength = 3): fc.Arbitrary<unknown> =>
  fc
    .array(device, { minLength: 1, maxLength })
    .map((made) => made.map((one, index) => (typeof one === 'function' ? one(index) : one)))

const deviceKinds: Parts = {
  disks: many(disk, 4),
  controllers: many(controller, 4),
  interfaces: many(networkInterface),
  filesystems: many(
    rarely(
      { type: fc.constant('mount'), source: fc.constant({ dir: '/srv' }), target: fc.constant({ dir: 'srv' }) },
      {
        accessmode: any('devices.filesystems.accessmode'),
        driver: part({ type: any('devices.filesystems.driver.type') }),
        readonly: fc.constant({}),
        address: pci,
      },
    ),
    2,
  ),
  serials: many(
    character(
      rarely(
        {},
        {
          target: rarely(
            {},
            {
              type: any('devices.serials.target.type'),
              port: small(3),
              model: part({ name: any('devices.serials.target.model.name') }),
            },
          ),
          address: weighted([1, pci], [1, usbAddress], [1, fc.constant({ type: 'isa', iobase: '0x3f8', irq: '0x4' })]),
        },
      ),
    ),
  ),
  parallels: many(character(rarely({}, { target: part({ port: small(2) }) })), 2),
  consoles: many(
    character(
      rarely(
        {},
        {
          target: part({ type: fc.constantFrom('serial', 'virtio') }, { port: small(2) }),
          address: virtioSerial,
        },
      ),
    ),
  ),
  channels: many(
    weighted(
      [
        3,
        character(
          rarely(
            {
              target: part(
                { type: fc.constant('virtio') },
                { name: fc.constantFrom('org.qemu.guest_agent.0', 'com.example.1') },
              ),
            },
            { address: virtioSerial },
          ),
        ),
      ],
      [1, fc.constant({ type: 'unix', target: { type: 'virtio', name: 'org.qemu.guest_agent.0' } })],
      [1, fc.constant({ type: 'spicevmc', target: { type: 'virtio', name: 'com.redhat.spice.0' } })],
      [1, fc.constant({ type: 'qemu-vdagent', target: { type: 'virtio', name: 'com.redhat.spice.0' } })],
    ),
  ),
  smartcards: many(
    weighted([2, fc.constant({ mode: 'host' })], [1, fc.constant({ mode: 'passthrough', type: 'spicevmc' })]),
    2,
  ),
  inputs: many(
    rarely(
      { type: weighted([7, fc.constantFrom('mouse', 'tablet', 'keyboard')], [1, any('devices.inputs.type')]) },
      {
        bus: any('devices.inputs.bus'),
        model: any('devices.inputs.model'),
        address: weighted([1, pci], [2, usbAddress]),
      },
    ),
  ),
  tpms: many(
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
      model('tpms'),
    ),
    1,
  ),
  graphics: many(
    weighted(
      [
        3,
        rarely(
          { type: fc.constant('vnc') },
          {
            port: fc.integer({ min: -1, max: 5910 }),
            autoport: fc.boolean(),
            listen: fc.constant('127.0.0.1'),
            sharePolicy: any('devices.graphics.sharePolicy'),
          },
        ),
      ],
      [
        2,
        rarely(
          { type: fc.constant('spice') },
          {
            autoport: fc.boolean(),
            port: fc.constantFrom(-1, 5901),
            tlsPort: fc.constantFrom(-1, 5902),
            image: part({ compression: any('devices.graphics.image.compression') }),
          },
        ),
      ],
      [1, fc.constant({ type: 'egl-headless' })],
      [1, rarely({ type: any('devices.graphics.type') }, {})],
    ),
    2,
  ),
  sounds: many(
    rarely(model('sounds'), {
      address: pci,
      audio: part({ id: fc.integer({ min: 1, max: 2 }) }),
      codecs: fc.constant([{ type: 'duplex' }]),
    }),
    2,
  ),
  audios: many(
    fc.integer({ min: 0, max: 3 }).chain((one) =>
      rarely({ type: any('devices.audios.type') }, { timerPeriod: small(10_000) }).map((made) => (index: number) => ({
        id: one === 0 ? 1 : index + 1,
        ...made,
      })),
    ),
    2,
  ),
  videos: many(
    part(
      {
        model: rarely(
          {
            type: weighted(
              [4, fc.constantFrom('vga', 'cirrus', 'virtio', 'qxl', 'bochs', 'none', 'ramfb')],
              [1, any('devices.videos.model.type')],
            ),
          },
          {
            vram: fc.constantFrom(1024, 9216, 16_384, 65_536),
            heads: fc.integer({ min: 1, max: 2 }),
            primary: fc.boolean(),
            ram: fc.constantFrom(65_536, 10_000),
            vgamem: fc.constantFrom(16_384, 8192, 5000),
            blob: fc.boolean(),
            acceleration: part({}, { accel3d: fc.boolean() }),
            resolution: fc.constant({ x: 1280, y: 720 }),
          },
        ),
      },
      { address: pci },
    ),
    2,
  ),
  hostdevs: many(
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
            driver: part({ name: any('devices.hostdevs.driver.name') }),
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
            model: any('devices.hostdevs.model'),
            source: fc.constant({ address: { uuid: '53764d0e-85a0-42b4-af5c-2046b460b1dc' } }),
          },
          { display: fc.boolean() },
        ),
      ],
    ),
    2,
  ),
  redirdevs: many(
    rarely(
      { type: fc.constantFrom('spicevmc', 'tcp'), bus: fc.constant('usb') },
      { source: fc.constant({ mode: 'connect', host: 'localhost', service: '4000' }), address: usbAddress },
    ),
    2,
  ),
  hubs: many(rarely({ type: fc.constant('usb') }, { address: usbAddress }), 2),
  watchdogs: many(rarely(model('watchdogs'), { action: any('devices.watchdogs.action'), address: pci }), 2),
  memballoon: rarely(model('memballoon'), {
    autodeflate: fc.boolean(),
    freePageReporting: fc.boolean(),
    stats: part({ period: small(10) }),
    ...virtioDevice,
  }),
  rngs: many(
    rarely(
      {
        model: any('devices.rngs.model'),
        backend: weighted(
          [3, fc.constant({ model: 'random', value: '/dev/urandom' })],
          [1, fc.constant({ model: 'builtin' })],
          [1, fc.constant({ model: 'random' })],
        ),
      },
      { rate: part({ bytes: small(2000) }, { period: small(2000) }), ...virtioDevice },
    ),
    2,
  ),
  panics: many(
    rarely({}, { ...model('panics'), address: weighted([1, fc.constant({ type: 'isa', iobase: '0x505' })], [1, pci]) }),
    2,
  ),
  shmems: many(
    fc
      .tuple(
        rarely(
          {},
          {
            model: part({ type: any('devices.shmems.model.type') }),
            size: fc.constantFrom({ unit: 'M', value: 4 }, { unit: 'M', value: 3 }),
            server: part({ path: fc.constant('/tmp/s.sock') }),
            msi: part({}, { vectors: small(8) }),
            address: pci,
          },
        ),
      )
      .map(([made]) => (index: number) => ({ name: `shmem${index}`, ...made })),
    2,
  ),
  memories: many(
    rarely(
      {
        model: any('devices.memories.model'),
        target: rarely(
          { size: fc.constantFrom({ unit: 'MiB', value: 128 }, { unit: 'KiB', value: 523264 }) },
          {
            node: small(1),
            block: fc.constant({ unit: 'KiB', value: 2048 }),
            requested: fc.constant({ unit: 'KiB', value: 0 }),
            label: fc.constant({ size: { unit: 'KiB', value: 128 } }),
          },
        ),
      },
      {
        access: any('devices.memories.access'),
        source: fc.constant({ path: '/tmp/nvdimm' }),
        address: fc.constantFrom({ type: 'dimm', slot: 0 }, { type: 'dimm', slot: 1, base: '0x100000000' }),
      },
    ),
    2,
  ),
  iommu: rarely(model('iommu'), {
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
  }),
  vsock: rarely(
    {},
    {
      ...model('vsock'),
      cid: part({}, { auto: fc.boolean(), address: fc.integer({ min: 3, max: 5 }) }),
      ...virtioDevice,
    },
  ),
  cryptos: many(
    rarely(
      {
        model: fc.constant('virtio'),
        type: fc.constant('qemu'),
        backend: part({ model: any('devices.cryptos.backend.model') }, { queues: small(3) }),
      },
      { address: pci },
    ),
    2,
  ),
  pstore: rarely(
    {
      backend: any('devices.pstore.backend'),
      size: fc.constantFrom({ unit: 'KiB', value: 512 }, { unit: 'KiB', value: 300 }),
    },
    { address: pci, path: fc.constant('/tmp/pstore') },
  ),
}

/** Few kinds at a time, the common ones more often: what is wrong with one hides what is wrong with another. */
const devices = fc
  .tuple(
    fc.subarray(['disks', 'interfaces', 'controllers', 'serials', 'consoles', 'graphics'], { maxLength: 3 }),
    fc.subarray(Object.keys(deviceKinds), { maxLength: 3 }),
  )
  .chain(([common, others]) =>
    fc.record(
      Object.fromEntries(
        [...new Set([...common, ...others])].map((kind) => [kind, deviceKinds[kind] ?? fc.constant([])]),
      ),
    ),
  )

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { plausibleDomains } from '../../test/arbitraries/plausible.ts'
import { i440fx, q35, testContext } from '../../test/applied.ts'
import { addedPaths } from './apply.ts'
import { fillDefaults, rules } from './defaults.ts'
import { pciDevices } from './pci.ts'

const modes = [
  ['a new domain', { ...testContext, name: 'vm', isNew: true }],
  ['a domain that libvirt reads again', { ...testContext, name: 'vm', isNew: false }],
] as const

describe.each(modes)('%s', (_, context) => {
  test('a complete domain does not change', () => {
    fc.assert(
      fc.property(plausibleDomains(), (domain) => {
        const once = fillDefaults(domain, context).domain
        const again = fillDefaults(once, context)
        expect(again.domain).toEqual(once)
        expect([...again.added]).toEqual([])
      }),
      { numRuns: 150 },
    )
  })

  test('changes nothing that is set, and records everything that it adds', () => {
    fc.assert(
      fc.property(plausibleDomains(), (domain) => {
        const before = structuredClone(domain)
        const { domain: after, added: additions } = fillDefaults(domain, context)
        const added = addedPaths(additions, after)
        expect(domain).toEqual(before)
        const [was, is] = [leaves(before), leaves(after)]
        const set = [...was].filter(([, value]) => !isFilledIn(value))
        expect(set.map(([path]) => [path, is.get(path)])).toEqual(set)
        const news = [...is.keys()].filter((path) => !was.has(path) || was.get(path) === '')
        expect(news.filter((path) => !added.has(path) && !isEmpty(is.get(path)))).toEqual([])
        expect([...added.keys()].filter((path) => !is.has(path))).toEqual([])
      }),
      { numRuns: 150 },
    )
  })
})

test('a rule that is skipped because its devices are absent would have added nothing', () => {
  fc.assert(
    fc.property(plausibleDomains(), ({ devices = {}, ...domain }) => {
      const whole = { ...domain, devices }
      const context = { ...testContext, name: 'vm' }
      const missed = rules.filter(
        ({ about, apply }) =>
          about?.every((kind) => devices[kind] === undefined) && [...apply(whole, context, whole)].length > 0,
      )
      expect(missed.map(({ name }) => name)).toEqual([])
    }),
    { numRuns: 150 },
  )
})

/** An empty text or object is filled in. */
const isFilledIn = (value: unknown): boolean => value === '' || isEmpty(value)
const isEmpty = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0

const leaves = (value: unknown): ReadonlyMap<string, unknown> => {
  const found = new Map<string, unknown>()
  const visit = (one: unknown, path: string): void => {
    if (typeof one !== 'object' || one === null || isEmpty(one)) found.set(path, one)
    else if (Array.isArray(one)) for (const [index, item] of one.entries()) visit(item, `${path}[${index}]`)
    else for (const [key, member] of Object.entries(one)) visit(member, path === '' ? key : `${path}.${key}`)
  }
  visit(value, '')
  return found
}

type Devices = NonNullable<Domain['devices']>

/** Devices of all kinds on PCI, without addresses. */
const unplaced: fc.Arbitrary<Domain> = fc
  .tuple(
    fc.constantFrom(q35, i440fx),
    fc.record({
      disks: fc
        .uniqueArray(fc.constantFrom('vda', 'vdb', 'vdc', 'vdd', 'sda', 'sdb'), { maxLength: 6 })
        .map((names) => names.map((dev) => ({ source: { file: `/disks/${dev}` }, target: { dev } }))),
      interfaces: fc.array(
        fc.constantFrom('virtio', 'e1000', 'rtl8139', 'virtio-transitional').map((type) => ({
          type: 'user' as const,
          model: { type },
        })),
        { maxLength: 40 },
      ),
      controllers: fc.constantFrom<NonNullable<Devices['controllers']>[]>(
        [],
        [{ type: 'scsi', index: 0, model: 'virtio-scsi' }],
        [
          { type: 'usb', model: 'ich9-ehci1' },
          { type: 'usb', model: 'ich9-uhci1' },
          { type: 'usb', model: 'ich9-uhci2' },
        ],
      ),
      videos: fc.array(
        fc.constantFrom('qxl', 'virtio').map((type) => ({ model: { type: type as 'qxl' } })),
        {
          maxLength: 3,
        },
      ),
      sounds: fc.array(
        fc.constantFrom('ich9', 'ich6', 'ac97').map((model) => ({ model: model as 'ich9' })),
        {
          maxLength: 3,
        },
      ),
      inputs: fc
        .nat({ max: 20 })
        .map((count) => Array.from({ length: count }, () => ({ type: 'tablet' as const, bus: 'usb' as const }))),
    }),
  )
  .map(([os, devices]): Domain => ({ os, memory: { unit: 'MiB', value: 64 }, devices }))

const placed = (domain: Domain): Domain => fillDefaults(domain, testContext).domain

test('every device on PCI has a unique address', () => {
  fc.assert(
    fc.property(unplaced, (domain) => {
      const devices = pciDevices(placed(domain)).filter(({ needs }) => needs !== 0)
      expect(devices.filter(({ address }) => address === undefined)).toEqual([])
      const places = devices.map(({ address }) => JSON.stringify(address))
      expect(places).toEqual([...new Set(places)])
    }),
    { numRuns: 100 },
  )
})

test('no two USB devices share a port', () => {
  fc.assert(
    fc.property(unplaced, (domain) => {
      const { inputs = [], hubs = [] } = placed(domain).devices ?? {}
      const ports = [...inputs, ...hubs].flatMap(({ address }) =>
        address?.type === 'usb' ? [`${address.bus} ${address.port}`] : [],
      )
      expect(ports).toEqual([...new Set(ports)])
      expect(ports).toHaveLength(inputs.filter(({ bus }) => bus === 'usb').length + hubs.length)
    }),
    { numRuns: 100 },
  )
})

test('the target of a disk determines its address, not its index in the list', () => {
  const places = ({ devices }: Domain) => new Map(devices?.disks?.map(({ target, address }) => [target?.dev, address]))
  fc.assert(
    fc.property(
      unplaced.chain((domain) =>
        fc
          .shuffledSubarray(domain.devices?.disks ?? [], { minLength: domain.devices?.disks?.length ?? 0 })
          .map((disks) => [domain, { ...domain, devices: { ...domain.devices, disks } }] as const),
      ),
      ([domain, shuffled]) => {
        const ofBus = (bus: string, one: Domain) => new Map([...places(one)].filter(([dev]) => dev?.startsWith(bus)))
        for (const bus of ['sd', 'vd']) expect(ofBus(bus, placed(shuffled))).toEqual(ofBus(bus, placed(domain)))
      },
    ),
    { numRuns: 60 },
  )
})

test('the minimal domain', () => {
  expect(placed({ type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } })).toEqual({
    type: 'qemu',
    uuid: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
    memory: { unit: 'MiB', value: 64 },
    currentMemory: { unit: 'KiB', value: 65536 },
    vcpu: { placement: 'static', value: 1 },
    os: { type: { os: 'hvm', arch: 'x86_64', machine: 'pc-i440fx-10.0' }, boots: [{ dev: 'hd' }] },
    cpu: { mode: 'custom', match: 'exact', check: 'none', model: { fallback: 'forbid', value: 'qemu64' } },
    clock: { offset: 'utc' },
    onPoweroff: 'destroy',
    onReboot: 'restart',
    onCrash: 'destroy',
    devices: {
      emulator: '/usr/bin/qemu-system-x86_64',
      controllers: [
        {
          type: 'usb',
          index: 0,
          model: 'piix3-uhci',
          address: { type: 'pci', domain: 0, bus: 0, slot: 1, function: 2 },
        },
        { type: 'pci', index: 0, model: 'pci-root' },
      ],
      inputs: [
        { type: 'mouse', bus: 'ps2' },
        { type: 'keyboard', bus: 'ps2' },
      ],
      audios: [{ id: 1, type: 'none' }],
      memballoon: { model: 'virtio', address: { type: 'pci', domain: 0, bus: 0, slot: 2, function: 0 } },
    },
  })
})

test('copies an object that a YAML anchor shares between two places', () => {
  const tablet = { type: 'tablet', bus: 'usb' } as const
  const { inputs } = placed({ os: q35, devices: { inputs: [tablet, tablet] } }).devices ?? {}
  expect(inputs?.map(({ address }) => address?.port).slice(0, 2)).toEqual(['1', '2'])
})

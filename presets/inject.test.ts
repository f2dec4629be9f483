import { describe, expect, test } from 'vitest'
import { clusterPreset, domainOf, injectSmall, preset, vm } from '../test/presets/make.ts'
import type { CompiledPreset } from './compile.ts'

const one = (spec: { readonly [key: string]: unknown }) => preset('p', spec)
const enforce = (spec: { readonly [key: string]: unknown }) => preset('e', { strength: 'Enforce', ...spec })

interface Case {
  readonly sentence: string
  readonly user: { readonly [key: string]: unknown }
  readonly presets: readonly CompiledPreset[]
  readonly result: unknown
}

const outcome = ({ user, presets }: Case) => domainOf(injectSmall(vm(user), presets))

describe('layers', () => {
  const say = (title: string) => ({ domain: { title } })
  test.each<Case>([
    { sentence: 'without presets nothing changes', user: { title: 'u' }, presets: [], result: { title: 'u' } },
    { sentence: 'a default fills what is absent', user: {}, presets: [one(say('a'))], result: { title: 'a' } },
    {
      sentence: 'the user wins over a default',
      user: { title: 'u' },
      presets: [one(say('a'))],
      result: { title: 'u' },
    },
    {
      sentence: 'a default of the namespace wins over one of the cluster',
      user: {},
      presets: [clusterPreset('c', say('c')), one(say('n'))],
      result: { title: 'n' },
    },
    {
      sentence: 'Enforce wins over the user',
      user: { title: 'u' },
      presets: [enforce(say('e'))],
      result: { title: 'e' },
    },
    {
      sentence: 'Enforce of the cluster wins over Enforce of the namespace, whatever the priority',
      user: { title: 'u' },
      presets: [clusterPreset('c', { strength: 'Enforce', ...say('c') }), enforce({ priority: 99, ...say('n') })],
      result: { title: 'c' },
    },
    {
      sentence: 'inside a layer the higher priority wins, leaf by leaf',
      user: {},
      presets: [
        preset('low', { domain: { title: 'low', vcpu: { value: 1 } } }),
        preset('high', { priority: 5, domain: { title: 'high' } }),
        preset('lower', { priority: -5, domain: { vcpu: { value: 9, cpuset: '0-3' } } }),
      ],
      result: { title: 'high', vcpu: { value: 1, cpuset: '0-3' } },
    },
    {
      sentence: 'false, 0 and the empty string are values',
      user: { title: '', vcpu: { value: 0 }, clock: { timers: [{ name: 'hpet', present: false }] } },
      presets: [
        one({ domain: { title: 'a', vcpu: { value: 4 }, clock: { timers: [{ name: 'hpet', present: true }] } } }),
      ],
      result: { title: '', vcpu: { value: 0 }, clock: { timers: [{ name: 'hpet', present: false }] } },
    },
    {
      sentence: 'an empty element is a value: it says that something is there',
      user: {},
      presets: [one({ domain: { features: { acpi: {} } } })],
      result: { features: { acpi: {} } },
    },
  ])('$sentence', (one) => expect(outcome(one)).toEqual(one.result))
})

describe('one value in two fields', () => {
  test.each<Case>([
    {
      sentence: 'a preset never fills the unit of a number that the user wrote',
      user: { memory: { value: 1024 } },
      presets: [one({ domain: { memory: { unit: 'MiB', value: 64 } } })],
      result: { memory: { value: 1024 } },
    },
    {
      sentence: 'Enforce sets unit and number',
      user: { memory: { unit: 'MiB', value: 64 } },
      presets: [enforce({ domain: { memory: { value: 1024 } } })],
      result: { memory: { value: 1024 } },
    },
    {
      sentence: "what means the same stays in the user's spelling, even under Enforce",
      user: { memory: { unit: 'GiB', value: 1 } },
      presets: [enforce({ domain: { memory: { unit: 'MiB', value: 1024 } } })],
      result: { memory: { unit: 'GiB', value: 1 } },
    },
    {
      sentence: 'two presets that say the same in different words give the spelling of libvirt',
      user: {},
      presets: [
        preset('a', {
          domain: { memory: { unit: 'GiB', value: 1 }, clock: { timers: [{ name: 'hpet', present: 'yes' }] } },
        }),
        preset('b', {
          domain: { memory: { unit: 'MiB', value: '1024' }, clock: { timers: [{ name: 'hpet', present: true }] } },
        }),
      ],
      result: { memory: { unit: 'KiB', value: 1_048_576 }, clock: { timers: [{ name: 'hpet', present: true }] } },
    },
  ])('$sentence', (one) => expect(outcome(one)).toEqual(one.result))
})

describe('conflicts', () => {
  const a = preset('a', { domain: { title: 'one' } })
  const b = preset('b', { domain: { title: 'two' } })
  const disagree = (layer: string, claims: string, priority = 0) => [
    `spec.domain.title: presets of one layer (${layer}) and priority (${priority}) disagree: ${claims}`,
  ]
  test.each<Case>([
    {
      sentence: 'same layer, same priority, different meaning',
      user: {},
      presets: [a, b],
      result: disagree('namespace Default', '"team/a" says "one", "team/b" says "two"'),
    },
    { sentence: "the user's own value settles it", user: { title: 'u' }, presets: [a, b], result: { title: 'u' } },
    {
      sentence: 'a higher priority settles it',
      user: {},
      presets: [a, b, preset('c', { priority: 1, domain: { title: 'three' } })],
      result: { title: 'three' },
    },
    {
      sentence: 'a stronger layer settles it',
      user: {},
      presets: [a, b, enforce({ domain: { title: 'e' } })],
      result: { title: 'e' },
    },
    {
      sentence: 'what the user wrote settles nothing among those who enforce',
      user: { title: 'u' },
      presets: [
        preset('a', { strength: 'Enforce', priority: 7, domain: { title: 'one' } }),
        preset('b', { strength: 'Enforce', priority: 7, domain: { title: 'two' } }),
      ],
      result: disagree('namespace Enforce', '"team/a" says "one", "team/b" says "two"', 7),
    },
    {
      sentence: 'a namespaced and a cluster preset are of different layers',
      user: {},
      presets: [a, clusterPreset('b', { domain: { title: 'two' } })],
      result: { title: 'one' },
    },
    {
      sentence: 'a preset that only warns is in no conflict',
      user: {},
      presets: [a, preset('b', { mode: 'Warn', domain: { title: 'two' } })],
      result: { title: 'one' },
    },
    {
      sentence: 'one cause a leaf, in the order of their paths',
      user: {},
      presets: [
        preset('a', { domain: { title: 'one', vcpu: { value: 1, cpuset: '0' } } }),
        preset('b', { domain: { title: 'two', vcpu: { value: 2, cpuset: '0' } } }),
      ],
      result: [
        'spec.domain.title: presets of one layer (namespace Default) and priority (0) disagree: "team/a" says "one", "team/b" says "two"',
        'spec.domain.vcpu.value: presets of one layer (namespace Default) and priority (0) disagree: "team/a" says 1, "team/b" says 2',
      ],
    },
  ])('$sentence', (one) => expect(outcome(one)).toEqual(one.result))

  test('the rest of the VM is made all the same, so that its rules can speak', () => {
    const { machine, unsettled } = injectSmall(vm({ type: 'kvm' }), [
      preset('a', { domain: { title: 'one', vcpu: { value: 2 } } }),
      preset('b', { domain: { title: 'two' } }),
    ])
    expect(machine.spec.domain).toEqual({ type: 'kvm', vcpu: { value: 2 } })
    expect(unsettled).toEqual(['spec.domain.title'])
  })

  test('the cause says the ways out', () => {
    expect(injectSmall(vm({}), [a, b]).causes.map(({ suggestion }) => suggestion)).toEqual([
      'set the field in the VM, or give one preset a higher priority, or exclude one by virtset.io/exclude-presets (a or b), or change the labels so that one matches',
    ])
  })
})

describe('lists', () => {
  const disk = (dev: string, others = {}) => ({ type: 'file', source: { file: `/${dev}` }, target: { dev }, ...others })
  const disks = (...list: unknown[]) => ({ devices: { disks: list } })
  test.each<Case>([
    {
      sentence: 'an item with a new key is added after those of the user',
      user: disks(disk('vdb')),
      presets: [one({ domain: disks(disk('vda')) })],
      result: disks(disk('vdb'), disk('vda')),
    },
    {
      sentence: "the user's order stays, then comes the higher layer, the higher priority, the key as text",
      user: disks(disk('vdz'), disk('vdy')),
      presets: [
        clusterPreset('c', { domain: disks(disk('vda')) }),
        preset('low', { domain: disks(disk('vdd'), disk('vdc')) }),
        preset('high', { priority: 1, domain: disks(disk('vde')) }),
        enforce({ domain: disks(disk('vdf')) }),
      ],
      result: disks(...['vdz', 'vdy', 'vdf', 'vde', 'vdc', 'vdd', 'vda'].map((dev) => disk(dev))),
    },
    {
      sentence: 'an item with an existing key fills the holes of the item',
      user: disks(disk('vda')),
      presets: [one({ domain: disks({ target: { dev: 'vda', bus: 'virtio' }, driver: { cache: 'none' } }) })],
      result: disks({ ...disk('vda'), target: { dev: 'vda', bus: 'virtio' }, driver: { cache: 'none' } }),
    },
    {
      sentence: 'under Enforce it overrides the leaves of the item',
      user: disks({ ...disk('vda'), driver: { cache: 'writeback', io: 'native' } }),
      presets: [enforce({ domain: disks({ target: { dev: 'vda' }, driver: { cache: 'none' } }) })],
      result: disks({ ...disk('vda'), driver: { cache: 'none', io: 'native' } }),
    },
    {
      sentence: "without its union's deciding attribute an item only changes what is there",
      user: {},
      presets: [one({ domain: disks({ target: { dev: 'vda' }, driver: { cache: 'none' } }) })],
      result: {},
    },
    {
      sentence: 'it also changes what another preset brings',
      user: {},
      presets: [
        one({ domain: disks({ target: { dev: 'vda' }, driver: { cache: 'none' } }) }),
        clusterPreset('c', { domain: disks(disk('vda')) }),
      ],
      result: disks({ ...disk('vda'), driver: { cache: 'none' } }),
    },
    {
      sentence: "the key '*' is every item that is there, brought ones too",
      user: disks(disk('vda'), disk('vdb', { driver: { cache: 'unsafe', io: 'native' } })),
      presets: [
        one({ domain: disks(disk('vdc')) }),
        enforce({ domain: disks({ target: { dev: '*' }, driver: { cache: 'none' } }) }),
      ],
      result: disks(
        disk('vda', { driver: { cache: 'none' } }),
        disk('vdb', { driver: { cache: 'none', io: 'native' } }),
        disk('vdc', { driver: { cache: 'none' } }),
      ),
    },
    {
      sentence: 'interfaces are the same by alias, or where one has none by MAC in any letter case',
      user: { devices: { interfaces: [{ mac: { address: '52:54:00:AA:00:01' } }, { alias: { name: 'ua-b' } }] } },
      presets: [
        one({
          domain: {
            devices: {
              interfaces: [
                { alias: { name: 'ua-a' }, mac: { address: '52:54:00:aa:00:01' }, model: { type: 'virtio' } },
                { alias: { name: 'ua-b' }, model: { type: 'e1000' } },
              ],
            },
          },
        }),
      ],
      result: {
        devices: {
          interfaces: [
            { mac: { address: '52:54:00:AA:00:01' }, alias: { name: 'ua-a' }, model: { type: 'virtio' } },
            { alias: { name: 'ua-b' }, model: { type: 'e1000' } },
          ],
        },
      },
    },
    {
      sentence: 'an item without a key is there already if some item has all its leaves',
      user: { devices: { videos: [{ model: { type: 'vga', vram: 16_384 } }] } },
      presets: [one({ domain: { devices: { videos: [{ model: { type: 'vga' } }] } } })],
      result: { devices: { videos: [{ model: { type: 'vga', vram: 16_384 } }] } },
    },
    {
      sentence: 'else it is added, once for all presets that say it',
      user: { devices: { videos: [{ model: { type: 'vga' } }] } },
      presets: [
        preset('a', { domain: { devices: { videos: [{ model: { type: 'qxl' } }] } } }),
        preset('b', { domain: { devices: { videos: [{ model: { type: 'qxl' } }] } } }),
      ],
      result: { devices: { videos: [{ model: { type: 'vga' } }, { model: { type: 'qxl' } }] } },
    },
    {
      sentence: 'two like items of one preset are two items',
      user: {},
      presets: [one({ domain: { devices: { serials: [{ type: 'pty' }, { type: 'pty' }] } } })],
      result: { devices: { serials: [{ type: 'pty' }, { type: 'pty' }] } },
    },
    {
      sentence: 'a list of words gets those that it does not have',
      user: { boots: ['hd'] },
      presets: [one({ domain: { boots: ['network', 'hd'] } })],
      result: { boots: ['hd', 'network'] },
    },
    {
      sentence: 'a list of one keeps the short key that the user wrote',
      user: disks({ type: 'network', source: { host: { name: 'a', port: '1' } }, target: { dev: 'vda' } }),
      presets: [
        one({
          domain: disks({
            type: 'network',
            source: { name: 'x', hosts: [{ name: 'a', port: 1 }] },
            target: { dev: 'vda' },
          }),
        }),
      ],
      result: disks({ type: 'network', source: { host: { name: 'a', port: '1' }, name: 'x' }, target: { dev: 'vda' } }),
    },
    {
      sentence: 'and becomes a list where a preset adds to it',
      user: disks({ type: 'network', source: { host: { name: 'a' } }, target: { dev: 'vda' } }),
      presets: [
        one({ domain: disks({ type: 'network', source: { hosts: [{ name: 'b' }] }, target: { dev: 'vda' } }) }),
      ],
      result: disks({ type: 'network', source: { hosts: [{ name: 'a' }, { name: 'b' }] }, target: { dev: 'vda' } }),
    },
  ])('$sentence', (one) => expect(outcome(one)).toEqual(one.result))
})

describe('unions', () => {
  const disks = (...list: unknown[]) => ({ devices: { disks: list } })
  test.each<Case>([
    {
      sentence: 'a preset for the other branch fills nothing of it, but leaves outside',
      user: { clock: { offset: 'timezone', timezone: 'Europe/Vienna' } },
      presets: [one({ domain: { clock: { offset: 'variable', adjustment: 5, timers: [{ name: 'rtc' }] } } })],
      result: { clock: { offset: 'timezone', timezone: 'Europe/Vienna', timers: [{ name: 'rtc' }] } },
    },
    {
      sentence: 'in the same branch holes are filled',
      user: { clock: { offset: 'utc' } },
      presets: [one({ domain: { clock: { offset: 'utc', adjustment: 5 } } })],
      result: { clock: { offset: 'utc', adjustment: 5 } },
    },
    {
      sentence: 'Enforce takes the whole union',
      user: disks({ type: 'file', source: { file: '/x' }, target: { dev: 'vda' }, serial: 's' }),
      presets: [enforce({ domain: disks({ type: 'network', source: { name: 'n' }, target: { dev: 'vda' } }) })],
      result: disks({ type: 'network', source: { name: 'n' }, target: { dev: 'vda' }, serial: 's' }),
    },
    {
      sentence: 'what the user began without deciding stays theirs where a preset decides otherwise',
      user: { clock: { timezone: 'Europe/Vienna' } },
      presets: [one({ domain: { clock: { offset: 'utc', adjustment: 5 } } })],
      result: { clock: { timezone: 'Europe/Vienna' } },
    },
    {
      sentence: 'and is completed where it fits',
      user: { clock: { timezone: 'Europe/Vienna' } },
      presets: [one({ domain: { clock: { offset: 'timezone', timezone: 'Asia/Tokyo' } } })],
      result: { clock: { timezone: 'Europe/Vienna', offset: 'timezone' } },
    },
    {
      sentence: 'presets that decide differently are in conflict over the deciding attribute alone',
      user: {},
      presets: [
        preset('a', { domain: { clock: { offset: 'utc', adjustment: 5 } } }),
        preset('b', { domain: { clock: { offset: 'variable', adjustment: 6 } } }),
      ],
      result: [
        'spec.domain.clock.offset: presets of one layer (namespace Default) and priority (0) disagree: "team/a" says "utc", "team/b" says "variable"',
      ],
    },
    {
      sentence: 'the branch of the higher priority is taken whole',
      user: {},
      presets: [
        preset('a', { domain: { clock: { offset: 'timezone', timezone: 'Asia/Tokyo' } } }),
        preset('b', { priority: 1, domain: { clock: { offset: 'utc' } } }),
      ],
      result: { clock: { offset: 'utc' } },
    },
  ])('$sentence', (one) => expect(outcome(one)).toEqual(one.result))
})

describe('a disk and its volume', () => {
  const withVolume = (name: string, capacity: string) => ({
    domain: { devices: { disks: [{ type: 'volume', source: { volume: name }, target: { dev: 'vdb' } }] } },
    volumes: [{ name, emptyDisk: { capacity } }],
  })
  const volumes = (...list: unknown[]) => ({ volumes: list })

  test('come together', () => {
    const { machine, causes } = injectSmall(vm({}), [one(withVolume('data', '1Gi'))])
    expect(causes).toEqual([])
    expect(machine.spec).toEqual({
      domain: { devices: { disks: [{ type: 'volume', source: { volume: 'data' }, target: { dev: 'vdb' } }] } },
      volumes: [{ name: 'data', emptyDisk: { capacity: '1Gi' } }],
    })
  })

  test('stay away together where the volume loses to another of its name', () => {
    const sent = vm({}, { spec: volumes({ name: 'data', emptyDisk: { capacity: '2Gi' } }) })
    const { machine, skipped } = injectSmall(sent, [one(withVolume('data', '1Gi'))])
    expect(machine).toEqual(sent)
    expect(skipped.map(({ path, reason }) => [path, reason])).toEqual([
      ['spec.domain.devices.disks[0]', 'volume-lost'],
      ['spec.domain.devices.disks[target.dev=vdb]', 'no-such-item'],
      ['spec.volumes[0]', 'volume-lost'],
    ])
  })

  test('come together where the user has a volume that means the same', () => {
    const sent = vm({}, { spec: volumes({ name: 'data', emptyDisk: { capacity: '1024Mi' } }) })
    const { machine } = injectSmall(sent, [one(withVolume('data', '1Gi'))])
    expect(machine.spec).toEqual({
      domain: { devices: { disks: [{ type: 'volume', source: { volume: 'data' }, target: { dev: 'vdb' } }] } },
      ...volumes({ name: 'data', emptyDisk: { capacity: '1024Mi' } }),
    })
  })

  test('stay away together where the disk loses to another of its target', () => {
    const sent = vm({ devices: { disks: [{ type: 'file', source: { file: '/x' }, target: { dev: 'vdb' } }] } })
    expect(injectSmall(sent, [one(withVolume('data', '1Gi'))]).machine).toEqual(sent)
  })

  test('a disk whose volume nobody brings stays away with a warning', () => {
    const { machine, warnings } = injectSmall(vm({}), [one({ domain: withVolume('data', '1Gi').domain })])
    expect(machine).toEqual(vm({}))
    expect(warnings).toEqual(['preset "team/p": its disk stays away, for nothing brings its volume "data"'])
  })

  test('another preset may bring the volume', () => {
    const { machine } = injectSmall(vm({}), [
      one({ domain: withVolume('data', '1Gi').domain }),
      clusterPreset('c', volumes({ name: 'data', cloudInit: { userData: 'x' } })),
    ])
    expect(machine.spec).toEqual({
      domain: withVolume('data', '1Gi').domain,
      ...volumes({ name: 'data', cloudInit: { userData: 'x' } }),
    })
  })

  test("the user's volume goes with the last disk that took it, when Enforce gives the disk another source", () => {
    const sent = vm(withVolume('data', '1Gi').domain, {
      spec: volumes(
        { name: 'data', emptyDisk: { capacity: '1Gi' } },
        { name: 'spare', emptyDisk: { capacity: '1Gi' } },
      ),
    })
    const { machine, warnings } = injectSmall(sent, [
      enforce({ domain: { devices: { disks: [{ type: 'network', source: { name: 'n' }, target: { dev: 'vdb' } }] } } }),
    ])
    expect(machine.spec).toEqual({
      domain: { devices: { disks: [{ type: 'network', source: { name: 'n' }, target: { dev: 'vdb' } }] } },
      ...volumes({ name: 'spare', emptyDisk: { capacity: '1Gi' } }),
    })
    expect(warnings).toContain('volume "data" goes, for no disk takes it any more')
  })

  test('a volume goes with the last disk that took it, when the disk is removed', () => {
    const sent = vm(withVolume('data', '1Gi').domain, {
      spec: volumes({ name: 'data', emptyDisk: { capacity: '1Gi' } }, { name: 'more', emptyDisk: { capacity: '1Gi' } }),
    })
    const removes = preset('r', { strength: 'Enforce', remove: ['domain.devices.disks[target.dev=vdb]'] })
    const { machine, warnings } = injectSmall(sent, [removes])
    expect(machine.spec).toEqual({ domain: {}, ...volumes({ name: 'more', emptyDisk: { capacity: '1Gi' } }) })
    expect(warnings).toContain('volume "data" goes, for no disk takes it any more')
  })

  test('what a default brought goes together, when the disk is removed', () => {
    const removes = preset('r', { strength: 'Enforce', remove: ['domain.devices.disks[target.dev=vdb]'] })
    expect(injectSmall(vm({}), [one(withVolume('data', '1Gi')), removes]).machine.spec).toEqual({ domain: {} })
  })

  test('two presets with different volumes of one name are in conflict', () => {
    const { causes } = injectSmall(vm({}), [
      preset('a', withVolume('data', '1Gi')),
      preset('b', withVolume('data', '2Gi')),
    ])
    expect(causes.map(({ field }) => field)).toEqual(['spec.volumes[0].emptyDisk.capacity'])
  })

  test('and so are two with different kinds', () => {
    const { causes } = injectSmall(vm({}), [
      preset('a', volumes({ name: 'data', emptyDisk: { capacity: '1Gi' } })),
      preset('b', volumes({ name: 'data', cloudInit: {} })),
    ])
    expect(causes.map(({ field }) => field)).toEqual(['spec.volumes[0]'])
  })
})

describe('beside the domain', () => {
  test('labels, annotations, scheduling are merged leaf by leaf; tolerations whole', () => {
    const sent = vm(
      { type: 'kvm' },
      {
        labels: { app: 'web' },
        spec: { nodeSelector: { disk: 'ssd' }, tolerations: [{ key: 'a', operator: 'Exists' }] },
      },
    )
    const { machine, origins } = injectSmall(sent, [
      one({
        metadata: { labels: { app: 'db', tier: 'gold' }, annotations: { 'example.org/note': 'n' } },
        nodeSelector: { disk: 'hdd', zone: 'z' },
        tolerations: [
          { key: 'a', operator: 'Exists', effect: 'NoSchedule' },
          { operator: 'Exists', key: 'a' },
        ],
        affinity: { nodeAffinity: { preferred: [] } },
        priorityClassName: 'high',
        terminationGracePeriodSeconds: 0,
      }),
    ])
    expect(machine.metadata).toEqual({
      name: 'vm',
      namespace: 'team',
      labels: { app: 'web', tier: 'gold' },
      annotations: { 'example.org/note': 'n' },
    })
    expect(machine.spec).toEqual({
      domain: { type: 'kvm' },
      nodeSelector: { disk: 'ssd', zone: 'z' },
      tolerations: [
        { key: 'a', operator: 'Exists' },
        { key: 'a', operator: 'Exists', effect: 'NoSchedule' },
      ],
      affinity: { nodeAffinity: { preferred: [] } },
      priorityClassName: 'high',
      terminationGracePeriodSeconds: 0,
    })
    expect([...origins.keys()]).toEqual([
      'metadata.labels.tier',
      'metadata.annotations[example.org/note]',
      'spec.nodeSelector.zone',
      'spec.tolerations[1]',
      'spec.affinity.nodeAffinity',
      'spec.priorityClassName',
      'spec.terminationGracePeriodSeconds',
    ])
  })
})

describe('remove', () => {
  const disks = (...devs: string[]) => ({
    devices: { disks: devs.map((dev) => ({ type: 'file', source: { file: `/${dev}` }, target: { dev } })) },
  })
  const remove = (...paths: string[]) => preset('r', { strength: 'Enforce', remove: paths })
  test.each<Case>([
    {
      sentence: 'an item by its key',
      user: disks('vda', 'vdb'),
      presets: [remove('domain.devices.disks[target.dev=vda]')],
      result: disks('vdb'),
    },
    {
      sentence: 'indexes mean the list before any removal',
      user: disks('vda', 'vdb', 'vdc'),
      presets: [remove('domain.devices.disks[0]', 'domain.devices.disks[1]')],
      result: disks('vdc'),
    },
    {
      sentence: 'what a default brought goes as well',
      user: {},
      presets: [one({ domain: disks('vda') }), remove('domain.devices.disks[0]')],
      result: {},
    },
    {
      sentence: 'a leaf of an item',
      user: { clock: { timers: [{ name: 'hpet', present: false }] } },
      presets: [remove('domain.clock.timers[name=hpet].present')],
      result: { clock: { timers: [{ name: 'hpet' }] } },
    },
    {
      sentence: 'a path that leads nowhere removes nothing',
      user: { title: 't' },
      presets: [remove('domain.vcpu')],
      result: { title: 't' },
    },
    {
      sentence: 'the last field leaves an empty domain',
      user: { title: 't' },
      presets: [remove('domain.title')],
      result: {},
    },
    {
      sentence: 'what a stronger preset states stays',
      user: { title: 'u' },
      presets: [remove('domain.title'), clusterPreset('c', { strength: 'Enforce', domain: { title: 'c' } })],
      result: { title: 'c' },
    },
    {
      sentence: 'and stays where the stronger one states what the user wrote',
      user: { title: 'c' },
      presets: [remove('domain.title'), clusterPreset('c', { strength: 'Enforce', domain: { title: 'c' } })],
      result: { title: 'c' },
    },
    {
      sentence: 'removing and setting one leaf in one layer at one priority is a conflict',
      user: { title: 'u' },
      presets: [remove('domain.title'), enforce({ domain: { title: 'e' } })],
      result: [
        'spec.domain.title: presets of one layer (namespace Enforce) and priority (0) disagree: "team/e" says "e", "team/r" removes it',
      ],
    },
    {
      sentence: 'what is left of an item without its deciding attribute is no item',
      user: disks('vda'),
      presets: [
        remove('domain.devices.disks[target.dev=vda]'),
        clusterPreset('c', {
          strength: 'Enforce',
          domain: { devices: { disks: [{ target: { dev: '*' }, driver: { cache: 'none' } }] } },
        }),
      ],
      result: {},
    },
  ])('$sentence', (one) => expect(outcome(one)).toEqual(one.result))

  test('is told to the user and noted', () => {
    const { removed, warnings } = injectSmall(vm(disks('vda', 'vdb')), [remove('domain.devices.disks[target.dev=vdb]')])
    expect([...removed.keys()]).toEqual(['spec.domain.devices.disks[1]'])
    expect(warnings).toEqual(['preset "team/r" removed spec.domain.devices.disks[1]'])
  })
})

describe('provenance', () => {
  test('every leaf that a preset put there has its preset and revision; what the user wrote has none', () => {
    const given = preset('p', {
      domain: { title: 'a', features: { acpi: {} }, devices: { disks: [{ type: 'file', target: { dev: 'vdb' } }] } },
    })
    const { origins } = injectSmall(
      vm({ type: 'kvm', devices: { disks: [{ type: 'file', target: { dev: 'vda' } }] } }),
      [given],
    )
    const origin = { by: 'preset', namespace: 'team', name: 'p', revision: given.origin.revision }
    expect(Object.fromEntries(origins)).toEqual({
      'spec.domain.title': origin,
      'spec.domain.features.acpi': origin,
      'spec.domain.devices.disks[1].type': origin,
      'spec.domain.devices.disks[1].target.dev': origin,
    })
    expect(given.origin.revision).toMatch(/^[0-9a-f]{16}$/)
  })

  test('what only changes items that are not there is noted as skipped', () => {
    const { skipped } = injectSmall(vm({ clock: { offset: 'localtime' } }), [
      one({
        domain: {
          devices: { disks: [{ target: { dev: 'vdz' }, driver: { cache: 'none' } }] },
          clock: { offset: 'variable', adjustment: 5 },
        },
      }),
    ])
    expect(skipped.map(({ path, reason }) => [path, reason])).toEqual([
      ['spec.domain.clock.adjustment', 'other-branch'],
      ['spec.domain.devices.disks[target.dev=vdz]', 'no-such-item'],
    ])
  })

  test('what was overridden is noted, and the user is told', () => {
    const { overridden, warnings } = injectSmall(vm({ title: 'u', vcpu: { value: 1 } }), [
      enforce({ domain: { title: 'e' } }),
      one({ domain: { vcpu: { value: 2 } } }),
    ])
    expect([...overridden].map(([path, lost]) => [path, lost.map(({ origin, value }) => [origin.by, value])])).toEqual([
      ['spec.domain.title', [['user', 'u']]],
      ['spec.domain.vcpu.value', [['preset', 2]]],
    ])
    expect(warnings).toEqual(['preset "team/e" changed spec.domain.title, which was "u"'])
  })

  test('a value that a cluster preset states is granted, whoever else states it', () => {
    const { grants, origins } = injectSmall(vm({ title: 'u', type: 'kvm' }), [
      clusterPreset('c', { domain: { title: 'u', vcpu: { value: 2 } } }),
      one({ domain: { type: 'kvm', vcpu: { value: 2, cpuset: '0' } } }),
    ])
    const paths = ['title', 'type', 'vcpu.value', 'vcpu.cpuset'].map((path) => `spec.domain.${path}`)
    expect(paths.filter(grants.isInjected)).toEqual(['spec.domain.title', 'spec.domain.vcpu.value'])
    expect([...origins.keys()]).toEqual(['spec.domain.vcpu.value', 'spec.domain.vcpu.cpuset'])
  })
})

test('what did not change is the very object that came in', () => {
  const sent = vm({ clock: { offset: 'utc' }, vcpu: { value: 1 } })
  const { machine } = injectSmall(sent, [one({ domain: { vcpu: { cpuset: '0' } } })])
  expect(machine.spec.domain).toEqual({ clock: { offset: 'utc' }, vcpu: { value: 1, cpuset: '0' } })
  expect(Reflect.get(machine.spec.domain, 'clock')).toBe(Reflect.get(sent.spec.domain, 'clock'))
  expect(injectSmall(sent, [one({ domain: { vcpu: { value: 1 } } })]).machine).toBe(sent)
})

describe('a list that presets make longer than is allowed', () => {
  const disks = (name: string, count: number) => ({
    devices: {
      disks: Array.from({ length: count }, (_, index) => ({ type: 'file', target: { dev: `${name}${index}` } })),
    },
  })

  test('refuses the VM, names the presets with the most items, and remains as the user wrote it', () => {
    const sent = vm(disks('u', 1))
    const { machine, causes, unsettled } = injectSmall(sent, [
      clusterPreset('site', { strength: 'Enforce', domain: { ...disks('c', 100), title: 't' } }),
      ...['a', 'b', 'd'].map((name, index) => preset(name, { domain: disks(name, 60 + index) })),
    ])
    expect({ causes, unsettled, domain: machine.spec.domain }).toEqual({
      causes: [
        {
          rule: 'list-length',
          field: 'spec.domain.devices.disks',
          value: 284,
          reason: 'FieldValueTooMany',
          message:
            'must have at most 256 items, and has 284 with those of presets: "site" has 100, "team/d" has 62, "team/b" has 61 and 1 more presets',
          suggestion: 'change the labels so that fewer of these presets match, or shorten their lists',
        },
      ],
      unsettled: ['spec.domain.devices.disks'],
      domain: { ...sent.spec.domain, title: 't' },
    })
  })

  test('is a cause for volumes too, and no reason to leave them out', () => {
    const volumes = (name: string) =>
      Array.from({ length: 200 }, (_, index) => ({ name: `${name}${index}`, emptyDisk: { capacity: '1Gi' } }))
    const { causes, skipped } = injectSmall(vm({}), [
      preset('a', { volumes: volumes('a') }),
      preset('b', { volumes: volumes('b') }),
    ])
    expect([causes.map(({ field }) => field), skipped]).toEqual([['spec.volumes'], []])
  })

  test('is not one where presets only change what is there', () => {
    const { causes } = injectSmall(vm(disks('u', 256)), [preset('a', { domain: disks('u', 256) })])
    expect(causes).toEqual([])
  })
})

test('16 presets of the cluster and 16 of the namespace that look on are tried, and the others named', () => {
  const title = (index: number) => ({ mode: 'Audit', domain: { title: `t${index}` } })
  const { audit, warnings } = injectSmall(vm({}), [
    ...Array.from({ length: 400 }, (_, index) => preset(`p${index}`, { ...title(index), priority: 400 - index })),
    clusterPreset('site', title(0)),
  ])
  expect(audit.map(({ preset: { id } }) => id)).toEqual([
    ...Array.from({ length: 16 }, (_, index) => `team/p${index}`),
    'site',
  ])
  expect(warnings).toEqual([
    '384 presets in mode Warn or Audit match and were not tried, there are too many: "team/p16", "team/p17", "team/p18"',
  ])
})

import { describe, expect, test } from 'vitest'
import { clusterPreset, domainOf, injectSmall, preset, vmWith } from '../test/presets/make.ts'
import type { CompiledPreset } from './compile.ts'

type Given = { readonly [key: string]: unknown }

const remove = (...paths: string[]) => preset('r', { strength: 'Enforce', remove: paths })
const byDefault = (domain: Given) => preset('p', { domain })
const byCluster = (domain: Given) => clusterPreset('c', { strength: 'Enforce', domain })
const disk = (dev: string, more: Given = {}) => ({
  type: 'file',
  source: { file: `/${dev}` },
  target: { dev },
  ...more,
})
const disks = (...list: unknown[]) => ({ devices: { disks: list } })
const interfaces = (...list: unknown[]) => ({ devices: { interfaces: list } })

test.each<[string, Given, readonly CompiledPreset[], Given]>([
  ['nothing of an empty object', { features: {} }, [remove('domain.features.acpi')], { features: {} }],
  [
    'of an empty object only what a preset added to it',
    { features: {} },
    [byDefault({ features: { acpi: {} } }), remove('domain.features.acpi')],
    { features: {} },
  ],
  ['nothing of an empty list', disks(), [remove('domain.devices.disks[0]')], disks()],
  [
    'an object with what presets added to it',
    { features: { acpi: {} } },
    [byDefault({ features: { apic: {} } }), remove('domain.features')],
    {},
  ],
  [
    'an object without what a stronger preset added',
    { features: { acpi: {} } },
    [byCluster({ features: { apic: {} } }), remove('domain.features')],
    { features: { apic: {} } },
  ],
  [
    'a list with what presets added to it',
    disks(disk('vda')),
    [byDefault(disks(disk('vdb'))), remove('domain.devices.disks')],
    {},
  ],
  [
    'a list without what a stronger preset added',
    disks(disk('vda')),
    [byCluster(disks(disk('vdb'))), remove('domain.devices.disks')],
    disks(disk('vdb')),
  ],
  [
    'a field of a list of objects, where presets added to one',
    disks(disk('vda', { driver: { cache: 'none' } })),
    [byDefault(disks({ target: { dev: 'vda' }, driver: { io: 'native' } })), remove('domain.devices.disks[0].driver')],
    disks(disk('vda')),
  ],
  [
    'items by a number in another spelling',
    { devices: { videos: [{ model: { vram: '1' } }, { model: { vram: 2 } }] } },
    [remove('domain.devices.videos[model.vram=1]')],
    { devices: { videos: [{ model: { vram: 2 } }] } },
  ],
  [
    'items by an empty element',
    disks(disk('vda', { readonly: {} }), disk('vdb')),
    [remove('domain.devices.disks[readonly={}]')],
    disks(disk('vdb')),
  ],
  [
    'no item by a field that it does not have',
    disks(disk('vda')),
    [remove('domain.devices.disks[serial=null]')],
    disks(disk('vda')),
  ],
  [
    'no item by a field that does not exist',
    disks(disk('vda', { none: 1 })),
    [remove('domain.devices.disks[none=1]')],
    disks(disk('vda', { none: 1 })),
  ],
  [
    'a field of an item that has one of several keys',
    interfaces({ mac: { address: '52:54:00:00:00:01' }, model: { type: 'virtio' } }),
    [remove('domain.devices.interfaces[mac.address=52:54:00:00:00:01].model')],
    interfaces({ mac: { address: '52:54:00:00:00:01' } }),
  ],
  [
    'an item with its key',
    interfaces({ mac: { address: '52:54:00:00:00:01' }, model: { type: 'virtio' } }),
    [remove('domain.devices.interfaces[0].mac')],
    {},
  ],
  [
    'an item with its deciding attribute',
    { devices: { serials: [{ type: 'pty', log: 'a' }] } },
    [remove('domain.devices.serials[0].type')],
    {},
  ],
  [
    'a field of an item that never had a deciding attribute',
    disks({ serial: 's', target: { dev: 'vda', bus: 'sata' } }),
    [remove('domain.devices.disks[0].serial')],
    disks({ target: { dev: 'vda', bus: 'sata' } }),
  ],
  ['nothing below a value', { title: 'a' }, [remove('domain.title.b')], { title: 'a' }],
])('removes %s', (_, user, presets, expected) => expect(domainOf(injectSmall(vmWith(user), presets))).toEqual(expected))

describe('of a list whose only item has a short key', () => {
  const evil = { name: 'evil', port: 1 }
  const good = { name: 'good', port: 2 }
  const network = (source: Given) =>
    disks({ type: 'network', target: { dev: 'vda' }, source: { name: 'n', ...source } })
  const at = 'domain.devices.disks[0].source'

  test.each<[string, Given, Given]>([
    [`${at}.hosts`, { host: evil }, {}],
    [`${at}.hosts[0]`, { host: evil }, {}],
    [`${at}.hosts[1]`, { host: evil }, { host: evil }],
    [`${at}.hosts[name=evil]`, { host: evil }, {}],
    [`${at}.hosts[name=good]`, { host: evil }, { host: evil }],
    [`${at}.hosts[0].port`, { host: evil }, { host: { name: 'evil' } }],
    [`${at}.host`, { host: evil }, {}],
    [`${at}.host`, { hosts: [good, evil] }, {}],
    [`${at}.host.port`, { hosts: [good, evil] }, { hosts: [{ name: 'good' }, { name: 'evil' }] }],
  ])('%s of %j leaves %j', (path, source, left) => {
    expect(domainOf(injectSmall(vmWith(network(source)), [remove(path)]))).toEqual(network(left))
  })

  test.each<[Given]>([[{ host: evil }], [{ hosts: [evil] }], [{ hosts: [good, evil] }]])(
    'an item is found by a value in %j',
    (source) => {
      const path = 'domain.devices.disks[source.host.name=evil]'
      expect(domainOf(injectSmall(vmWith(network(source)), [remove(path)]))).toEqual({})
    },
  )

  test('no item is found by another value', () => {
    const sent = network({ hosts: [good, evil] })
    const path = 'domain.devices.disks[source.host.name=other]'
    expect(domainOf(injectSmall(vmWith(sent), [remove(path)]))).toEqual(sent)
  })

  test('the record names it as the user wrote it', () => {
    const { removed } = injectSmall(vmWith(network({ host: evil })), [remove(`${at}.hosts`)])
    expect([...removed.keys()]).toEqual(['spec.domain.devices.disks[0].source.host'])
  })

  test('what a stronger preset sets in it remains', () => {
    const presets = [byCluster(network({ host: { port: 1 } })), remove(`${at}.hosts`)]
    expect(domainOf(injectSmall(vmWith(network({ host: evil })), presets))).toEqual(network({ host: { port: 1 } }))
  })
})

describe('what a stronger preset sets in an item', () => {
  const enforced = { alias: { name: 'ua-lan' }, model: { type: 'virtio' } }
  const address = '52:54:00:00:00:01'
  const sent = { ...enforced, mac: { address } }

  test.each([
    ['another key of it', sent, 'domain.devices.interfaces[0].mac'],
    ['the item', { ...sent, model: { type: 'e1000' } }, 'domain.devices.interfaces[alias.name=ua-lan]'],
    ['the item by another key', sent, `domain.devices.interfaces[mac.address=${address}]`],
  ])('remains if a weaker one removes %s', (_, user, path) => {
    const presets = [byCluster(interfaces(enforced)), remove(path)]
    expect(domainOf(injectSmall(vmWith(interfaces(user)), presets))).toEqual(interfaces(enforced))
  })

  test.each([
    ['of every item', { target: { dev: '*' }, driver: { cache: 'none' } }],
    ['without the deciding attribute', { target: { dev: 'vda' }, driver: { cache: 'none' } }],
  ])('does not remain if it is set %s, which does not create one', (_, stated) => {
    const left = ['domain.devices.disks[target.dev=vda]', 'domain.devices.disks', 'domain.devices'].map((path) =>
      domainOf(injectSmall(vmWith(disks(disk('vda'))), [byCluster(disks(stated)), remove(path)])),
    )
    expect(left).toEqual([{}, {}, {}])
  })

  test('remains if the same preset removes another key of it', () => {
    const both = { strength: 'Enforce', domain: interfaces(enforced), remove: ['domain.devices.interfaces[0].mac'] }
    expect(domainOf(injectSmall(vmWith(interfaces(sent)), [preset('b', both)]))).toEqual(interfaces(enforced))
  })

  test.each(['domain.clock', 'domain.clock.offset'])('remains if it is only that there is one, of %s', (path) => {
    const presets = [byCluster({ clock: {} }), remove(path)]
    expect(domainOf(injectSmall(vmWith({ clock: { offset: 'utc' } }), presets))).toEqual({ clock: {} })
  })

  test('is in conflict with one of its rank that removes it, even if the user states more of it', () => {
    const presets = [preset('p', { strength: 'Enforce', domain: { clock: {} } }), remove('domain.clock')]
    const outcomes = [{}, { clock: { offset: 'utc' } }].map((user) => injectSmall(vmWith(user), presets).causes)
    expect(outcomes.map((causes) => causes.map(({ field }) => field))).toEqual([
      ['spec.domain.clock'],
      ['spec.domain.clock'],
    ])
  })

  test.each([
    ['', []],
    [', whatever a weaker one removes of it', [remove('domain.devices.interfaces[0].alias')]],
  ])('does not remain if a stronger one removes its key%s', (_, others) => {
    const presets = [
      preset('d', {
        strength: 'Enforce',
        priority: 1,
        domain: interfaces({ mac: { address }, model: { type: 'virtio' } }),
      }),
      clusterPreset('r', { strength: 'Enforce', remove: ['domain.devices.interfaces[0].mac'] }),
    ]
    expect(domainOf(injectSmall(vmWith(interfaces({ mac: { address } })), [...presets, ...others]))).toEqual({})
  })
})

describe('outside the domain', () => {
  test('removes the last label of a node selector with the selector, but keeps an empty domain', () => {
    const sent = vmWith({ title: 'a' }, { spec: { nodeSelector: { 'a/b': 'c' } } })
    expect(injectSmall(sent, [remove('nodeSelector[a/b]', 'domain.title')]).vm.spec).toEqual({ domain: {} })
  })
})

test.each(['domain.devices', 'domain.devices.videos', 'domain.devices.videos[0]'])(
  'what a weaker preset leaves when it removes %s, a stronger one can remove',
  (above) => {
    const vga = { devices: { videos: [{ model: { type: 'vga' } }, { model: { type: 'qxl' } }] } }
    const presets = [
      preset('p', { strength: 'Enforce', priority: 1, domain: vga }),
      remove(above),
      clusterPreset('c', {
        strength: 'Enforce',
        remove: ['domain.devices.videos[0].model', 'domain.devices.videos[model.type=qxl].model'],
      }),
    ]
    expect(domainOf(injectSmall(vmWith({}), presets))).toEqual({})
  },
)

describe('records what it removed', () => {
  const below = clusterPreset('c', {
    strength: 'Enforce',
    remove: ['domain.features.acpi', 'domain.devices.interfaces[type=bridge]'],
  })
  test.each<[string, Given, string, CompiledPreset[]]>([
    ['an empty object', { features: {} }, 'features', []],
    ['an empty object, which a stronger preset does not remove', { features: {} }, 'features', [below]],
    ['an empty object that a preset filled', { features: {} }, 'features', [byDefault({ features: { apic: {} } })]],
    ['an empty list', interfaces(), 'devices.interfaces', []],
    ['an empty list, which a stronger preset does not remove', interfaces(), 'devices.interfaces', [below]],
  ])('%s', (_, given, path, others) => {
    const { vm, removed } = injectSmall(vmWith(given), [...others, remove(`domain.${path}`)])
    expect(vm.spec.domain).toEqual({})
    expect(removed.get(`spec.domain.${path}`)).toMatchObject({ name: 'r' })
  })

  test('by its index before, even if another preset removes more of an item', () => {
    const hosts = ['h0', 'h1', 'h2', 'h3'].map((name) => ({ name }))
    const from = (more: Given) => ({ type: 'network', source: { name: 'n', ...more }, target: { dev: 'vda' } })
    const at = 'domain.devices.disks[0].source.hosts'
    const { removed } = injectSmall(vmWith(disks(from({ hosts }))), [
      clusterPreset('s', { strength: 'Enforce', remove: [`${at}[name=h0]`] }),
      preset('creator', { strength: 'Enforce', priority: 5, domain: disks(from({})) }),
      preset('d', { domain: disks({ source: { hosts: [{ name: 'h9' }] }, target: { dev: 'vda' } }) }),
      remove(`${at}[name=h3]`),
    ])
    expect([...removed.keys()]).toEqual([`spec.${at}[0]`, `spec.${at}[3]`])
  })

  test('of a preset and of the user', () => {
    const { removed } = injectSmall(vmWith({ type: 'kvm', features: { acpi: {} } }), [
      byDefault({ title: 'a', features: { apic: {} } }),
      remove('domain.title', 'domain.features', 'domain.type'),
    ])
    expect([...removed.keys()].toSorted()).toEqual([
      'spec.domain.features.acpi',
      'spec.domain.features.apic',
      'spec.domain.title',
      'spec.domain.type',
    ])
  })

  test('by the strongest preset that removes it', () => {
    const { removed } = injectSmall(vmWith({ title: 'a' }), [
      remove('domain.title'),
      clusterPreset('c', { strength: 'Enforce', remove: ['domain.title'] }),
    ])
    expect([...removed.values()]).toMatchObject([{ name: 'c' }])
  })

  test('and names what follows in the list by its new place', () => {
    const conflicting = ['none', 'unsafe'].map((cache) =>
      preset(cache, { strength: 'Enforce', domain: disks({ target: { dev: 'vdb' }, driver: { cache } }) }),
    )
    const { causes } = injectSmall(vmWith(disks(disk('vda'), disk('vdb'))), [
      ...conflicting,
      clusterPreset('r', { strength: 'Enforce', remove: ['domain.devices.disks[target.dev=vda]'] }),
    ])
    expect(causes.map(({ field }) => field)).toEqual(['spec.domain.devices.disks[0].driver.cache'])
  })

  test('and the origins of what follows in the list', () => {
    const { origins } = injectSmall(vmWith(disks(disk('vda'), disk('vdb'))), [
      byDefault(disks({ target: { dev: 'vdb' }, driver: { cache: 'none' } })),
      remove('domain.devices.disks[target.dev=vda]'),
    ])
    expect([...origins.keys()]).toEqual(['spec.domain.devices.disks[0].driver.cache'])
  })
})

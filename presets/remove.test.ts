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
    const presets = [byCluster(disks(stated)), remove('domain.devices.disks[target.dev=vda]')]
    expect(domainOf(injectSmall(vmWith(disks(disk('vda'))), presets))).toEqual({})
  })

  test('does not remain if a stronger one removes its key', () => {
    const presets = [
      preset('d', { strength: 'Enforce', domain: interfaces({ mac: { address }, model: { type: 'virtio' } }) }),
      clusterPreset('r', { strength: 'Enforce', remove: ['domain.devices.interfaces[0].mac'] }),
    ]
    expect(domainOf(injectSmall(vmWith(interfaces({ mac: { address } })), presets))).toEqual({})
  })
})

describe('outside the domain', () => {
  test('removes the last label of a node selector with the selector, but keeps an empty domain', () => {
    const sent = vmWith({ title: 'a' }, { spec: { nodeSelector: { 'a/b': 'c' } } })
    expect(injectSmall(sent, [remove('nodeSelector[a/b]', 'domain.title')]).vm.spec).toEqual({ domain: {} })
  })
})

describe('records what it removed', () => {
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

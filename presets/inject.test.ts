import { describe, expect, test } from 'vitest'
import { sizeOf } from '../api/steps.ts'
import { clusterPreset, domainOf, injectSmall, preset, vmWith } from '../test/presets/make.ts'
import { volumeOfEachKind } from '../test/volumes.ts'
import type { CompiledPreset } from './compile.ts'

const one = (spec: { readonly [key: string]: unknown }) => preset('p', spec)
const enforce = (spec: { readonly [key: string]: unknown }) => preset('e', { strength: 'Enforce', ...spec })

interface Case {
  readonly sentence: string
  readonly user: { readonly [key: string]: unknown }
  readonly presets: readonly CompiledPreset[]
  readonly result: unknown
}

const outcome = ({ user, presets }: Case) => domainOf(injectSmall(vmWith(user), presets))

describe('layers', () => {
  const titled = (title: string) => ({ domain: { title } })
  test.each<Case>([
    { sentence: 'without presets nothing changes', user: { title: 'u' }, presets: [], result: { title: 'u' } },
    { sentence: 'a default fills what is absent', user: {}, presets: [one(titled('a'))], result: { title: 'a' } },
    {
      sentence: 'the user wins over a default',
      user: { title: 'u' },
      presets: [one(titled('a'))],
      result: { title: 'u' },
    },
    {
      sentence: 'a namespace Default wins over a cluster Default',
      user: {},
      presets: [clusterPreset('c', titled('c')), one(titled('n'))],
      result: { title: 'n' },
    },
    {
      sentence: 'Enforce wins over the user',
      user: { title: 'u' },
      presets: [enforce(titled('e'))],
      result: { title: 'e' },
    },
    {
      sentence: 'cluster Enforce wins over namespace Enforce, regardless of priority',
      user: { title: 'u' },
      presets: [clusterPreset('c', { strength: 'Enforce', ...titled('c') }), enforce({ priority: 99, ...titled('n') })],
      result: { title: 'c' },
    },
    {
      sentence: 'within a layer the higher priority wins, leaf by leaf',
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
      sentence: 'an empty element is a value',
      user: {},
      presets: [one({ domain: { features: { acpi: {} } } })],
      result: { features: { acpi: {} } },
    },
  ])('$sentence', (one) => expect(outcome(one)).toEqual(one.result))
})

describe('a cluster preset that enforces', () => {
  const has = (field: string) => [{ name: 'has', expression: `has(object.spec.domain.${field})` }]
  const strict = (spec: { readonly [key: string]: unknown }) => clusterPreset('c', { strength: 'Enforce', ...spec })
  const ofCluster = { domain: { title: 'cluster' } }
  const label = preset('n', { metadata: { labels: { tier: 'public' } } })
  const byLabel = { selector: { matchLabels: { tier: 'public' } }, ...ofCluster }
  test.each<[string, readonly CompiledPreset[], unknown, object?]>([
    [
      'applies to a field that a preset of the namespace sets',
      [strict({ matchConditions: has('vcpu'), ...ofCluster }), one({ domain: { vcpu: { value: 1 } } })],
      { title: 'cluster', vcpu: { value: 1 } },
    ],
    ['applies to a label that a preset of the namespace sets', [strict(byLabel), label], { title: 'cluster' }],
    [
      'does not apply to a field that another cluster preset sets',
      [strict({ matchConditions: has('vcpu'), ...ofCluster }), clusterPreset('d', { domain: { vcpu: { value: 1 } } })],
      { vcpu: { value: 1 } },
    ],
    [
      'applies to the VM as it was sent, even if a preset of the namespace removes the field',
      [strict({ matchConditions: has('vcpu'), ...ofCluster }), enforce({ remove: ['domain.vcpu'] })],
      { title: 'cluster' },
      { vcpu: { value: 1 } },
    ],
    [
      'does not apply to a label that a preset in mode Audit would set',
      [strict(byLabel), preset('n', { mode: 'Audit', metadata: { labels: { tier: 'public' } } })],
      {},
    ],
    [
      'refuses a VM on which its condition then fails',
      [
        strict({
          matchConditions: [
            { name: 'few', expression: '!has(object.spec.domain.vcpu) || object.spec.domain.vcpu.value / 0 == 1' },
          ],
          ...ofCluster,
        }),
        one({ domain: { vcpu: { value: 1 } } }),
      ],
      { title: 'cluster', vcpu: { value: 1 } },
    ],
  ])('%s', (_, presets, expected, user = {}) => {
    expect(domainOf(injectSmall(vmWith({ ...user }), presets))).toEqual(expected)
  })

  test.each<[string, CompiledPreset]>([
    ['in strength Default', clusterPreset('c', byLabel)],
    ['in mode Audit', strict({ mode: 'Audit', ...byLabel })],
  ])('does not apply late %s', (_, other) => {
    expect(domainOf(injectSmall(vmWith({}), [other, label]))).toEqual({})
  })

  test('is reported as a participant, once', () => {
    const { participants, vm } = injectSmall(vmWith({}), [strict(byLabel), label])
    expect(participants.map(({ preset: { id }, changes }) => [id, changes])).toEqual([
      ['team/n', 1],
      ['c', 1],
    ])
    expect(injectSmall(vm, [strict(byLabel), label]).vm).toEqual(vm)
  })

  test('can be excluded by users with the verb exempt', () => {
    const vm = vmWith({}, { annotations: { 'virtset.io/exclude-presets': 'c' } })
    const presets = [strict(byLabel), label]
    const [exempt, refused] = [injectSmall(vm, presets, { exempt: new Set(['c']) }), injectSmall(vm, presets)]
    expect([domainOf(exempt), exempt.warnings]).toEqual([{}, []])
    expect([domainOf(refused), refused.warnings]).toEqual([
      { title: 'cluster' },
      ['virtset.io/exclude-presets: preset "c" applies: to exclude it requires the verb "exempt" on it'],
    ])
  })

  test('names the condition that fails after the presets of the namespace are applied', () => {
    const matchConditions = [
      { name: 'one', expression: 'has(object.spec.domain.vcpu) && object.spec.domain.vcpu.value / 0 == 1' },
    ]
    const { causes } = injectSmall(vmWith({}), [
      strict({ matchConditions, ...ofCluster }),
      one({ domain: { vcpu: { value: 1 } } }),
    ])
    expect(causes).toMatchObject([
      { rule: 'preset-condition', message: expect.stringContaining('its condition "one" cannot be evaluated') },
    ])
    const sent = injectSmall(vmWith({ vcpu: { value: 1 } }), [strict({ matchConditions, ...ofCluster }), label])
    expect(sent.causes).toHaveLength(1)
  })

  test('is refused with the conditions that fail before and after the presets of the namespace are applied', () => {
    const fails = (name: string, when: string) =>
      clusterPreset(name, {
        strength: 'Enforce',
        matchConditions: [{ name, expression: `${when} && object.spec.domain.title == 1 / 0` }],
      })
    const { causes } = injectSmall(vmWith({}), [
      fails('before', '!has(object.spec.domain.vcpu)'),
      fails('after', 'has(object.spec.domain.vcpu)'),
      one({ domain: { vcpu: { value: 1 } } }),
    ])
    expect(causes.map(({ message }) => message.replace(/, but.*/, ''))).toEqual([
      'preset "before" has strength Enforce',
      'preset "after" has strength Enforce',
    ])
  })
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
      sentence: "an equal value remains in the user's spelling, even under Enforce",
      user: { memory: { unit: 'GiB', value: 1 } },
      presets: [enforce({ domain: { memory: { unit: 'MiB', value: 1024 } } })],
      result: { memory: { unit: 'GiB', value: 1 } },
    },
    {
      sentence: 'two presets that spell a value differently give the spelling of libvirt',
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
      result: disagree('namespace Default', '"team/a" sets "one", "team/b" sets "two"'),
    },
    { sentence: "the user's value resolves it", user: { title: 'u' }, presets: [a, b], result: { title: 'u' } },
    {
      sentence: 'a higher priority resolves it',
      user: {},
      presets: [a, b, preset('c', { priority: 1, domain: { title: 'three' } })],
      result: { title: 'three' },
    },
    {
      sentence: 'a stronger layer resolves it',
      user: {},
      presets: [a, b, enforce({ domain: { title: 'e' } })],
      result: { title: 'e' },
    },
    {
      sentence: "the user's value does not resolve a conflict of Enforce presets",
      user: { title: 'u' },
      presets: [
        preset('a', { strength: 'Enforce', priority: 7, domain: { title: 'one' } }),
        preset('b', { strength: 'Enforce', priority: 7, domain: { title: 'two' } }),
      ],
      result: disagree('namespace Enforce', '"team/a" sets "one", "team/b" sets "two"', 7),
    },
    {
      sentence: 'a namespaced and a cluster preset are in different layers',
      user: {},
      presets: [a, clusterPreset('b', { domain: { title: 'two' } })],
      result: { title: 'one' },
    },
    {
      sentence: 'a preset in mode Warn does not conflict',
      user: {},
      presets: [a, preset('b', { mode: 'Warn', domain: { title: 'two' } })],
      result: { title: 'one' },
    },
    {
      sentence: 'one cause per leaf, sorted by path',
      user: {},
      presets: [
        preset('a', { domain: { title: 'one', vcpu: { value: 1, cpuset: '0' } } }),
        preset('b', { domain: { title: 'two', vcpu: { value: 2, cpuset: '0' } } }),
      ],
      result: [
        'spec.domain.title: presets of one layer (namespace Default) and priority (0) disagree: "team/a" sets "one", "team/b" sets "two"',
        'spec.domain.vcpu.value: presets of one layer (namespace Default) and priority (0) disagree: "team/a" sets 1, "team/b" sets 2',
      ],
    },
  ])('$sentence', (one) => expect(outcome(one)).toEqual(one.result))

  test('the rest of the VM is completed, so that its rules are checked too', () => {
    const { vm, unsettled } = injectSmall(vmWith({ type: 'kvm' }), [
      preset('a', { domain: { title: 'one', vcpu: { value: 2 } } }),
      preset('b', { domain: { title: 'two' } }),
    ])
    expect(vm.spec.domain).toEqual({ type: 'kvm', vcpu: { value: 2 } })
    expect(unsettled).toEqual(['spec.domain.title'])
  })

  test('the cause lists ways to resolve it', () => {
    expect(injectSmall(vmWith({}), [a, b]).causes.map(({ suggestion }) => suggestion)).toEqual([
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
      sentence:
        "the user's items come first, then those of the higher layer, then of the higher priority, each in its own order",
      user: disks(disk('vdz'), disk('vdy')),
      presets: [
        clusterPreset('c', { domain: disks(disk('vda')) }),
        preset('low', { domain: disks(disk('vdd'), disk('vdc')) }),
        preset('high', { priority: 1, domain: disks(disk('vde')) }),
        enforce({ domain: disks(disk('vdf')) }),
      ],
      result: disks(...['vdz', 'vdy', 'vdf', 'vde', 'vdd', 'vdc', 'vda'].map((dev) => disk(dev))),
    },
    {
      sentence: 'an item with an existing key fills the missing fields of that item',
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
      sentence: "an item without its union's deciding attribute creates no item",
      user: {},
      presets: [one({ domain: disks({ target: { dev: 'vda' }, driver: { cache: 'none' } }) })],
      result: {},
    },
    {
      sentence: 'but it changes an item that another preset adds',
      user: {},
      presets: [
        one({ domain: disks({ target: { dev: 'vda' }, driver: { cache: 'none' } }) }),
        clusterPreset('c', { domain: disks(disk('vda')) }),
      ],
      result: disks({ ...disk('vda'), driver: { cache: 'none' } }),
    },
    {
      sentence: "the key '*' matches every item, including those that presets add",
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
      sentence: 'interfaces are matched by alias, or if one has none by MAC in any letter case',
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
      sentence: 'an item without a key is not added if an existing item has all its leaves',
      user: { devices: { videos: [{ model: { type: 'vga', vram: 16_384 } }] } },
      presets: [one({ domain: { devices: { videos: [{ model: { type: 'vga' } }] } } })],
      result: { devices: { videos: [{ model: { type: 'vga', vram: 16_384 } }] } },
    },
    {
      sentence: 'otherwise it is added, once for all presets that contain it',
      user: { devices: { videos: [{ model: { type: 'vga' } }] } },
      presets: [
        preset('a', { domain: { devices: { videos: [{ model: { type: 'qxl' } }] } } }),
        preset('b', { domain: { devices: { videos: [{ model: { type: 'qxl' } }] } } }),
      ],
      result: { devices: { videos: [{ model: { type: 'vga' } }, { model: { type: 'qxl' } }] } },
    },
    {
      sentence: 'two equal items in one preset are two items',
      user: {},
      presets: [one({ domain: { devices: { serials: [{ type: 'pty' }, { type: 'pty' }] } } })],
      result: { devices: { serials: [{ type: 'pty' }, { type: 'pty' }] } },
    },
    {
      sentence: 'presets of equal rank add their items in the order of their lists as text',
      user: {},
      presets: [
        preset('a', { domain: disks(disk('vdd'), disk('vdb')) }),
        preset('b', { domain: disks(disk('vdc'), disk('vdb'), disk('vda')) }),
      ],
      result: disks(...['vdc', 'vdb', 'vda', 'vdd'].map((dev) => disk(dev))),
    },
    {
      sentence: 'missing words are added to a list of words',
      user: { words: ['b'] },
      presets: [one({ domain: { words: ['c', 'b', 'a'] } })],
      result: { words: ['b', 'c', 'a'] },
    },
    {
      sentence: 'an ordered list is one value: a preset sets it if it is absent',
      user: {},
      presets: [one({ domain: { boots: ['network', 'hd'] } })],
      result: { boots: ['network', 'hd'] },
    },
    {
      sentence: "the user's ordered list is not extended",
      user: { boots: ['hd'] },
      presets: [one({ domain: { boots: ['network', 'hd'] } })],
      result: { boots: ['hd'] },
    },
    {
      sentence: 'an Enforce preset replaces the whole ordered list',
      user: { boots: ['hd', 'network'] },
      presets: [enforce({ domain: { boots: ['network', 'hd'] } })],
      result: { boots: ['network', 'hd'] },
    },
    {
      sentence: 'a list with one item remains under the short key that the user wrote',
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
      sentence: 'also under the short key of a preset, if the user has no such item',
      user: {},
      presets: [one({ domain: disks({ type: 'network', source: { host: { name: 'a' } }, target: { dev: 'vda' } }) })],
      result: disks({ type: 'network', source: { host: { name: 'a' } }, target: { dev: 'vda' } }),
    },
    {
      sentence: "an item under a preset's short key is added to the user's list",
      user: disks({ type: 'network', source: { hosts: [{ name: 'a' }] }, target: { dev: 'vda' } }),
      presets: [
        preset('a', { domain: disks({ type: 'network', source: { host: { name: 'b' } }, target: { dev: 'vda' } }) }),
        preset('b', { domain: disks({ type: 'network', source: { name: 'n' }, target: { dev: 'vda' } }) }),
      ],
      result: disks({
        type: 'network',
        source: { hosts: [{ name: 'a' }, { name: 'b' }], name: 'n' },
        target: { dev: 'vda' },
      }),
    },
    {
      sentence: 'and becomes a list if a preset adds an item',
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
      sentence: 'a preset for another branch only sets fields outside the union',
      user: { clock: { offset: 'timezone', timezone: 'Europe/Vienna' } },
      presets: [one({ domain: { clock: { offset: 'variable', adjustment: 5, timers: [{ name: 'rtc' }] } } })],
      result: { clock: { offset: 'timezone', timezone: 'Europe/Vienna', timers: [{ name: 'rtc' }] } },
    },
    {
      sentence: 'a preset for the same branch sets missing fields',
      user: { clock: { offset: 'utc' } },
      presets: [one({ domain: { clock: { offset: 'utc', adjustment: 5 } } })],
      result: { clock: { offset: 'utc', adjustment: 5 } },
    },
    {
      sentence: 'Enforce replaces the whole union',
      user: disks({ type: 'file', source: { file: '/x' }, target: { dev: 'vda' }, serial: 's' }),
      presets: [enforce({ domain: disks({ type: 'network', source: { name: 'n' }, target: { dev: 'vda' } }) })],
      result: disks({ type: 'network', source: { name: 'n' }, target: { dev: 'vda' }, serial: 's' }),
    },
    {
      sentence: "a preset does not select a branch in which the user's fields are not valid",
      user: { clock: { timezone: 'Europe/Vienna' } },
      presets: [one({ domain: { clock: { offset: 'utc', adjustment: 5 } } })],
      result: { clock: { timezone: 'Europe/Vienna' } },
    },
    {
      sentence: "a preset selects the branch in which the user's fields are valid",
      user: { clock: { timezone: 'Europe/Vienna' } },
      presets: [one({ domain: { clock: { offset: 'timezone', timezone: 'Asia/Tokyo' } } })],
      result: { clock: { timezone: 'Europe/Vienna', offset: 'timezone' } },
    },
    {
      sentence: 'presets that select different branches conflict on the deciding attribute only',
      user: {},
      presets: [
        preset('a', { domain: { clock: { offset: 'utc', adjustment: 5 } } }),
        preset('b', { domain: { clock: { offset: 'variable', adjustment: 6 } } }),
      ],
      result: [
        'spec.domain.clock.offset: presets of one layer (namespace Default) and priority (0) disagree: "team/a" sets "utc", "team/b" sets "variable"',
      ],
    },
    {
      sentence: "Enforce selects a branch in which the user's fields are not valid, and removes them",
      user: { clock: { timezone: 'Europe/Vienna', timers: [{ name: 'rtc' }] } },
      presets: [enforce({ domain: { clock: { offset: 'utc', adjustment: 5 } } })],
      result: { clock: { timers: [{ name: 'rtc' }], offset: 'utc', adjustment: 5 } },
    },
    {
      sentence: 'a preset selects any branch if the user has no field of the union',
      user: { clock: { timers: [{ name: 'rtc' }] } },
      presets: [one({ domain: { clock: { offset: 'utc', adjustment: 5 } } })],
      result: { clock: { timers: [{ name: 'rtc' }], offset: 'utc', adjustment: 5 } },
    },
    {
      sentence: "a preset's fields without a branch do not keep a weaker preset from selecting one",
      user: {},
      presets: [
        preset('a', { priority: 1, domain: { clock: { timezone: 'Asia/Tokyo', timers: [{ name: 'rtc' }] } } }),
        preset('b', { domain: { clock: { offset: 'utc', adjustment: 5 } } }),
      ],
      result: { clock: { offset: 'utc', adjustment: 5, timers: [{ name: 'rtc' }] } },
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

describe('what a union leaves out', () => {
  const clock = (given: object) => ({ clock: given })
  const skips = ({ skipped }: ReturnType<typeof injectSmall>) => skipped.map(({ path, reason }) => `${path} ${reason}`)

  test('of a preset that must not select a branch', () => {
    const result = injectSmall(vmWith(clock({ timezone: 'Europe/Vienna' })), [
      one({ domain: clock({ offset: 'utc', adjustment: 5, timers: [{ name: 'rtc' }] }) }),
    ])
    expect(domainOf(result)).toEqual(clock({ timezone: 'Europe/Vienna', timers: [{ name: 'rtc' }] }))
    expect(skips(result)).toEqual([
      'spec.domain.clock.adjustment other-branch',
      'spec.domain.clock.offset other-branch',
    ])
  })

  test('of a preset that selects another branch, whose choice is recorded as overridden', () => {
    const { overridden, skipped } = injectSmall(vmWith(clock({ offset: 'utc' })), [
      one({ domain: clock({ offset: 'timezone', timezone: 'Asia/Tokyo' }) }),
    ])
    expect([...overridden].map(([path, lost]) => [path, lost.map(({ value }) => value)])).toEqual([
      ['spec.domain.clock.offset', ['timezone']],
    ])
    expect(skipped.map(({ path }) => path)).toEqual(['spec.domain.clock.timezone'])
  })

  test('of a preset whose fields are not valid in the selected branch', () => {
    const result = injectSmall(vmWith(clock({ offset: 'utc' })), [
      one({ domain: clock({ timezone: 'Asia/Tokyo', adjustment: 5 }) }),
    ])
    expect(domainOf(result)).toEqual(clock({ offset: 'utc', adjustment: 5 }))
    expect(skips(result)).toEqual(['spec.domain.clock.timezone other-branch'])
  })

  test('of the user, which is recorded with the preset that selected another branch', () => {
    const { overridden, vm } = injectSmall(vmWith(clock({ offset: 'timezone', timezone: 'Europe/Vienna' })), [
      enforce({ domain: { title: 'e', ...clock({ offset: 'utc' }) } }),
    ])
    expect(vm.spec.domain).toEqual({ title: 'e', ...clock({ offset: 'utc' }) })
    expect([...overridden].map(([path, lost]) => [path, lost.map(({ value }) => value)])).toEqual([
      ['spec.domain.clock.offset', ['timezone']],
      ['spec.domain.clock.timezone', ['Europe/Vienna']],
    ])
  })

  test("of presets that conflict; the user's fields and those outside the union remain", () => {
    const { vm, unsettled } = injectSmall(vmWith(clock({ adjustment: 1, timers: [{ name: 'hpet' }] })), [
      preset('a', { strength: 'Enforce', domain: clock({ offset: 'utc', adjustment: 5, timers: [{ name: 'rtc' }] }) }),
      preset('b', { strength: 'Enforce', domain: clock({ offset: 'variable', adjustment: 6 }) }),
    ])
    expect(vm.spec.domain).toEqual(clock({ adjustment: 1, timers: [{ name: 'hpet' }, { name: 'rtc' }] }))
    expect(unsettled).toEqual(['spec.domain.clock.offset'])
  })
})

describe('the order of keys', () => {
  test("the user's as they are, then those of presets in the order of the description, or of the alphabet", () => {
    const sent = vmWith({ vcpu: { value: 1 }, type: 'kvm' }, { spec: { nodeSelector: { m: '1' } } })
    const { vm } = injectSmall(sent, [
      one({ domain: { boots: ['hd'], title: 'a' }, nodeSelector: JSON.parse('{"z":"1","__proto__":"2","a":"3"}') }),
    ])
    expect(Object.keys(vm.spec.domain)).toEqual(['vcpu', 'type', 'title', 'boots'])
    expect(Object.entries(vm.spec.nodeSelector ?? {})).toEqual([
      ['m', '1'],
      ['__proto__', '2'],
      ['a', '3'],
      ['z', '1'],
    ])
  })
})

describe('what is not changed', () => {
  test('is the very object of the user, and empty lists remain', () => {
    const sent = vmWith({
      title: 'u',
      devices: { disks: [], videos: [{ model: { type: 'vga' } }, { model: { type: 'qxl' } }] },
    })
    const { vm } = injectSmall(sent, [
      enforce({
        domain: { title: 'e', devices: { disks: [{ target: { dev: 'vda' } }], videos: [{ model: { type: 'qxl' } }] } },
      }),
    ])
    expect(vm.spec.domain.devices).toBe(sent.spec.domain.devices)
    expect(vm.metadata).toBe(sent.metadata)
    expect(vm.spec.domain).toEqual({ ...sent.spec.domain, title: 'e' })
  })

  test('an item of a list is replaced alone', () => {
    const sent = vmWith({ devices: { disks: ['vda', 'vdb'].map((dev) => ({ type: 'file', target: { dev } })) } })
    const { vm } = injectSmall(sent, [
      one({ domain: { devices: { disks: [{ target: { dev: 'vda' }, serial: 's' }] } } }),
    ])
    const [before, after] = [sent, vm].map(({ spec }) => spec.domain.devices?.disks ?? [])
    expect([after?.[1] === before?.[1], after?.[0] === before?.[0]]).toEqual([true, false])
  })
})

describe('what cluster presets grant', () => {
  const granted = (user: object, ...presets: CompiledPreset[]) => {
    const { grants } = injectSmall(vmWith({ ...user }), presets)
    return ['spec.domain.title', 'spec.domain.vcpu.value'].filter((path) => grants.injected.grantorsAt(path).length > 0)
  }
  const cluster = (domain: object) => clusterPreset('c', { strength: 'Enforce', domain })

  test('is what they state and what stands', () => {
    expect(granted({}, cluster({ title: 'a' }))).toEqual(['spec.domain.title'])
    expect(granted({ title: 'a' }, cluster({ title: 'a' }))).toEqual(['spec.domain.title'])
    expect(granted({ title: 'u' }, clusterPreset('c', { domain: { title: 'a' } }))).toEqual([])
    expect(granted({}, clusterPreset('c', { domain: { title: 'a' } }), one({ domain: { title: 'b' } }))).toEqual([])
    expect(granted({}, clusterPreset('c', { domain: { title: 'a' } }), one({ domain: { title: 'a' } }))).toEqual([
      'spec.domain.title',
    ])
    expect(granted({}, one({ domain: { title: 'a' } }))).toEqual([])
  })

  test('is not what a preset that only matches without those of the namespace states', () => {
    const unless = clusterPreset('c', {
      selector: { matchExpressions: [{ key: 'trusted', operator: 'DoesNotExist' }] },
      domain: { title: 'a' },
    })
    const condition = clusterPreset('d', {
      matchConditions: [{ name: 'one', expression: '!has(object.spec.domain.vcpu)' }],
      domain: { title: 'a' },
    })
    const label = one({ metadata: { labels: { trusted: 'no' } } })
    const cpus = one({ domain: { vcpu: { value: 2 } } })
    expect([granted({}, unless), granted({}, unless, label)]).toEqual([['spec.domain.title'], []])
    expect([granted({}, condition), granted({}, condition, cpus)]).toEqual([['spec.domain.title'], []])
    expect(granted({}, unless, cpus)).toEqual(['spec.domain.title'])
  })

  test('holds for the same field of another VM', () => {
    const { grants } = injectSmall(vmWith({}), [
      clusterPreset('c', { domain: { title: 'a', devices: { disks: [{ type: 'file', target: { dev: 'vda' } }] } } }),
      one({ domain: { vcpu: { value: 2 } } }),
    ])
    const { grantorsAt } = grants.statedOf(
      vmWith({ title: 'a', vcpu: { value: 2 }, devices: { disks: [{ type: 'file', target: { dev: 'vdb' } }] } }),
    )
    expect(
      ['title', 'title.a', 'vcpu.value', 'devices.disks[0].type', 'devices.disks[1].type'].map(
        (path) => grantorsAt(`spec.domain.${path}`).length,
      ),
    ).toEqual([1, 1, 0, 0, 1])
    expect(grants.statedOf(vmWith({ title: 'other' })).grantorsAt('spec.domain.title')).toEqual([])
    expect(grants.injected.grantorsAt('spec.domain.title')).toMatchObject([{ name: 'c' }])
    expect(grants.injected.grantorsAt('spec.domain.vcpu.value')).toEqual([])
  })

  test('is not the value that stands where they state another one', () => {
    const presets = [clusterPreset('c', { domain: { title: 'a' } }), one({ domain: { type: 'kvm' } })]
    const overruledIn = (user: object): readonly boolean[] => {
      const vm = vmWith({ ...user })
      const { grants } = injectSmall(vm, presets)
      return [grants.injected, grants.statedOf(vm)].map(
        ({ overruledAt }) => overruledAt('spec.domain.title').length > 0,
      )
    }
    expect(overruledIn({ title: 'u' })).toEqual([true, true])
    expect(overruledIn({ title: 'a' })).toEqual([false, false])
    expect(overruledIn({})).toEqual([false, false])
    expect(injectSmall(vmWith({ type: 'qemu' }), presets).grants.injected.overruledAt('spec.domain.type')).toEqual([])
  })
})

describe('a disk and its volume', () => {
  const withVolume = (name: string, capacity: string) => ({
    domain: { devices: { disks: [{ type: 'volume', source: { volume: name }, target: { dev: 'vdb' } }] } },
    volumes: [{ name, emptyDisk: { capacity } }],
  })
  const volumes = (...list: unknown[]) => ({ volumes: list })

  test('are added together', () => {
    const { vm, causes } = injectSmall(vmWith({}), [one(withVolume('data', '1Gi'))])
    expect(causes).toEqual([])
    expect(vm.spec).toEqual({
      domain: { devices: { disks: [{ type: 'volume', source: { volume: 'data' }, target: { dev: 'vdb' } }] } },
      volumes: [{ name: 'data', emptyDisk: { capacity: '1Gi' } }],
    })
  })

  test('are left out together if the volume loses to another of the same name', () => {
    const sent = vmWith({}, { spec: volumes({ name: 'data', emptyDisk: { capacity: '2Gi' } }) })
    const { vm, skipped } = injectSmall(sent, [one(withVolume('data', '1Gi'))])
    expect(vm).toEqual(sent)
    expect(skipped.map(({ path, reason }) => [path, reason])).toEqual([
      ['spec.domain.devices.disks[0]', 'volume-lost'],
      ['spec.domain.devices.disks[target.dev=vdb]', 'no-such-item'],
      ['spec.volumes[0]', 'volume-lost'],
    ])
  })

  test('the disk is added if the user has an equal volume', () => {
    const sent = vmWith({}, { spec: volumes({ name: 'data', emptyDisk: { capacity: '1024Mi' } }) })
    const { vm } = injectSmall(sent, [one(withVolume('data', '1Gi'))])
    expect(vm.spec).toEqual({
      domain: { devices: { disks: [{ type: 'volume', source: { volume: 'data' }, target: { dev: 'vdb' } }] } },
      ...volumes({ name: 'data', emptyDisk: { capacity: '1024Mi' } }),
    })
  })

  test('are left out together if the disk loses to another with the same target', () => {
    const sent = vmWith({ devices: { disks: [{ type: 'file', source: { file: '/x' }, target: { dev: 'vdb' } }] } })
    expect(injectSmall(sent, [one(withVolume('data', '1Gi'))]).vm).toEqual(sent)
  })

  test('a disk whose volume is missing is left out with a warning', () => {
    const { vm, warnings } = injectSmall(vmWith({}), [one({ domain: withVolume('data', '1Gi').domain })])
    expect(vm).toEqual(vmWith({}))
    expect(warnings).toEqual(['preset "team/p": its device is left out because its volume "data" is missing'])
  })

  test('another preset may provide the volume', () => {
    const { vm } = injectSmall(vmWith({}), [
      one({ domain: withVolume('data', '1Gi').domain }),
      clusterPreset('c', volumes({ name: 'data', cloudInit: { userData: 'x' } })),
    ])
    expect(vm.spec).toEqual({
      domain: withVolume('data', '1Gi').domain,
      ...volumes({ name: 'data', cloudInit: { userData: 'x' } }),
    })
  })

  test("the user's volume is removed with its last use, if Enforce gives the disk another source", () => {
    const sent = vmWith(withVolume('data', '1Gi').domain, {
      spec: volumes(
        { name: 'data', emptyDisk: { capacity: '1Gi' } },
        { name: 'spare', emptyDisk: { capacity: '1Gi' } },
      ),
    })
    const { vm, warnings } = injectSmall(sent, [
      enforce({ domain: { devices: { disks: [{ type: 'network', source: { name: 'n' }, target: { dev: 'vdb' } }] } } }),
    ])
    expect(vm.spec).toEqual({
      domain: { devices: { disks: [{ type: 'network', source: { name: 'n' }, target: { dev: 'vdb' } }] } },
      ...volumes({ name: 'spare', emptyDisk: { capacity: '1Gi' } }),
    })
    expect(warnings).toContain('volume "data" is removed because no disk uses it any more')
  })

  test('a volume is removed with the last disk that used it', () => {
    const sent = vmWith(withVolume('data', '1Gi').domain, {
      spec: volumes({ name: 'data', emptyDisk: { capacity: '1Gi' } }, { name: 'more', emptyDisk: { capacity: '1Gi' } }),
    })
    const removes = preset('r', { strength: 'Enforce', remove: ['domain.devices.disks[target.dev=vdb]'] })
    const { vm, warnings } = injectSmall(sent, [removes])
    expect(vm.spec).toEqual({ domain: {}, ...volumes({ name: 'more', emptyDisk: { capacity: '1Gi' } }) })
    expect(warnings).toContain('volume "data" is removed because no disk uses it any more')
  })

  test('the volume of a Default preset is removed with its disk', () => {
    const removes = preset('r', { strength: 'Enforce', remove: ['domain.devices.disks[target.dev=vdb]'] })
    expect(injectSmall(vmWith({}), [one(withVolume('data', '1Gi')), removes]).vm.spec).toEqual({ domain: {} })
  })

  test('two presets with different volumes of the same name conflict', () => {
    const { causes } = injectSmall(vmWith({}), [
      preset('a', withVolume('data', '1Gi')),
      preset('b', withVolume('data', '2Gi')),
    ])
    expect(causes.map(({ field }) => field)).toEqual(['spec.volumes[0].emptyDisk.capacity'])
  })

  test('two presets with volumes of different kinds and the same name conflict', () => {
    const { causes } = injectSmall(vmWith({}), [
      preset('a', volumes({ name: 'data', emptyDisk: { capacity: '1Gi' } })),
      preset('b', volumes({ name: 'data', cloudInit: {} })),
    ])
    expect(causes.map(({ field }) => field)).toEqual(['spec.volumes[0]'])
  })

  test('are injected for each kind of volume', () => {
    const disks = volumeOfEachKind.map(({ name: volume }, index) => ({
      type: 'volume',
      source: { volume },
      target: { dev: `vd${String.fromCharCode(97 + index)}` },
    }))
    const { vm } = injectSmall(vmWith({}), [preset('p', { volumes: volumeOfEachKind, domain: { devices: { disks } } })])
    expect(vm.spec).toMatchObject({ volumes: volumeOfEachKind, domain: { devices: { disks } } })
  })
})

describe('fields outside the domain', () => {
  test('labels, annotations, scheduling are merged leaf by leaf; tolerations whole', () => {
    const sent = vmWith(
      { type: 'kvm' },
      {
        labels: { app: 'web' },
        spec: { nodeSelector: { disk: 'ssd' }, tolerations: [{ key: 'a', operator: 'Exists' }] },
      },
    )
    const { vm, origins } = injectSmall(sent, [
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
    expect(vm.metadata).toEqual({
      name: 'vm',
      namespace: 'team',
      labels: { app: 'web', tier: 'gold' },
      annotations: { 'example.org/note': 'n' },
    })
    expect(vm.spec).toEqual({
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
      sentence: 'indexes refer to the list before any removal',
      user: disks('vda', 'vdb', 'vdc'),
      presets: [remove('domain.devices.disks[0]', 'domain.devices.disks[1]')],
      result: disks('vdc'),
    },
    {
      sentence: 'removes what a Default preset added',
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
      sentence: 'a path that does not exist removes nothing',
      user: { title: 't' },
      presets: [remove('domain.vcpu')],
      result: { title: 't' },
    },
    {
      sentence: 'removing the last field leaves an empty domain',
      user: { title: 't' },
      presets: [remove('domain.title')],
      result: {},
    },
    {
      sentence: 'does not remove what a stronger preset sets',
      user: { title: 'u' },
      presets: [remove('domain.title'), clusterPreset('c', { strength: 'Enforce', domain: { title: 'c' } })],
      result: { title: 'c' },
    },
    {
      sentence: "nor if the stronger preset sets the user's own value",
      user: { title: 'c' },
      presets: [remove('domain.title'), clusterPreset('c', { strength: 'Enforce', domain: { title: 'c' } })],
      result: { title: 'c' },
    },
    {
      sentence: 'removing and setting one leaf in one layer at one priority is a conflict',
      user: { title: 'u' },
      presets: [remove('domain.title'), enforce({ domain: { title: 'e' } })],
      result: [
        'spec.domain.title: presets of one layer (namespace Enforce) and priority (0) disagree: "team/e" sets "e", "team/r" removes it',
      ],
    },
    {
      sentence: 'an item that lost its deciding attribute is removed entirely',
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

  test('is reported to the user and recorded', () => {
    const { removed, warnings } = injectSmall(vmWith(disks('vda', 'vdb')), [
      remove('domain.devices.disks[target.dev=vdb]'),
    ])
    expect([...removed.keys()]).toEqual(['spec.domain.devices.disks[1]'])
    expect(warnings).toEqual(['preset "team/r" removed spec.domain.devices.disks[1]'])
  })
})

describe('provenance', () => {
  test('every leaf that a preset set records the preset and its revision; others have no origin', () => {
    const given = preset('p', {
      domain: { title: 'a', features: { acpi: {} }, devices: { disks: [{ type: 'file', target: { dev: 'vdb' } }] } },
    })
    const { origins } = injectSmall(
      vmWith({ type: 'kvm', devices: { disks: [{ type: 'file', target: { dev: 'vda' } }] } }),
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

  test('a value for an item that does not exist is recorded as skipped', () => {
    const { skipped } = injectSmall(vmWith({ clock: { offset: 'localtime' } }), [
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

  test('overridden values are recorded, and the user gets a warning', () => {
    const { overridden, warnings } = injectSmall(vmWith({ title: 'u', vcpu: { value: 1 } }), [
      enforce({ domain: { title: 'e' } }),
      one({ domain: { vcpu: { value: 2 } } }),
    ])
    expect([...overridden].map(([path, lost]) => [path, lost.map(({ origin, value }) => [origin.by, value])])).toEqual([
      ['spec.domain.title', [['user', 'u']]],
      ['spec.domain.vcpu.value', [['preset', 2]]],
    ])
    expect(warnings).toEqual(['preset "team/e" changed spec.domain.title, which was "u"'])
  })

  test('a value that a cluster preset states is granted, even if other presets state it too', () => {
    const { grants, origins } = injectSmall(vmWith({ title: 'u', type: 'kvm' }), [
      clusterPreset('c', { domain: { title: 'u', vcpu: { value: 2 } } }),
      one({ domain: { type: 'kvm', vcpu: { value: 2, cpuset: '0' } } }),
    ])
    const paths = ['title', 'type', 'vcpu.value', 'vcpu.cpuset'].map((path) => `spec.domain.${path}`)
    expect(paths.filter((path) => grants.injected.grantorsAt(path).length > 0)).toEqual([
      'spec.domain.title',
      'spec.domain.vcpu.value',
    ])
    expect([...origins.keys()]).toEqual(['spec.domain.vcpu.value', 'spec.domain.vcpu.cpuset'])
  })
})

test.each<[string, object, object, object]>([
  [
    'a list that the user wrote remains a list, even with one item',
    { name: 'n', hosts: [{ name: 'a' }] },
    { hosts: [{ name: 'a' }] },
    { name: 'n', hosts: [{ name: 'a' }] },
  ],
  [
    'the only item that the user wrote under the short key remains there',
    { name: 'n', host: { name: 'a' } },
    { host: { name: 'a' } },
    { name: 'n', host: { name: 'a' } },
  ],
  [
    'a preset that writes both gives all items to the list',
    { name: 'n', hosts: [{ name: 'a' }] },
    { host: { name: 'b' }, hosts: [{ name: 'c' }] },
    { name: 'n', hosts: [{ name: 'a' }, { name: 'b' }, { name: 'c' }] },
  ],
])('%s', (_, users, presets, expected) => {
  const disk = (source: object) => ({ devices: { disks: [{ type: 'network', source, target: { dev: 'vda' } }] } })
  expect(domainOf(injectSmall(vmWith(disk(users)), [one({ domain: disk(presets) })]))).toEqual(disk(expected))
})

test('a key __proto__ is a key like any other', () => {
  const { vm } = injectSmall(vmWith({}), [one({ nodeSelector: JSON.parse('{"__proto__": "a", "b": "c"}') })])
  expect(Object.entries(vm.spec.nodeSelector ?? {})).toEqual([
    ['__proto__', 'a'],
    ['b', 'c'],
  ])
})

test('volumes that disks use are not reported as removed', () => {
  const disks = [{ type: 'volume', source: { volume: 'data' }, target: { dev: 'vdb' } }]
  const volumes = [{ name: 'data', emptyDisk: { capacity: '1Gi' } }]
  const { warnings } = injectSmall(vmWith({ devices: { disks } }, { spec: { volumes } }), [
    one({ domain: { title: 'a' } }),
  ])
  expect(warnings).toEqual([])
})

test('unchanged parts are the same objects as in the input', () => {
  const sent = vmWith({ clock: { offset: 'utc' }, vcpu: { value: 1 } })
  const { vm } = injectSmall(sent, [one({ domain: { vcpu: { cpuset: '0' } } })])
  expect(vm.spec.domain).toEqual({ clock: { offset: 'utc' }, vcpu: { value: 1, cpuset: '0' } })
  expect(Reflect.get(vm.spec.domain, 'clock')).toBe(Reflect.get(sent.spec.domain, 'clock'))
  expect(injectSmall(sent, [one({ domain: { vcpu: { value: 1 } } })]).vm).toBe(sent)
})

describe('a list that presets make longer than allowed', () => {
  const disks = (name: string, count: number) => ({
    devices: {
      disks: Array.from({ length: count }, (_, index) => ({ type: 'file', target: { dev: `${name}${index}` } })),
    },
  })

  test('refuses the VM, names the presets with the most items, and remains as the user wrote it', () => {
    const sent = vmWith(disks('u', 1))
    const { vm, causes, unsettled } = injectSmall(sent, [
      clusterPreset('site', { strength: 'Enforce', domain: { ...disks('c', 100), title: 't' } }),
      ...['a', 'b', 'd'].map((name, index) => preset(name, { domain: disks(name, 60 + index) })),
    ])
    expect({ causes, unsettled, domain: vm.spec.domain }).toEqual({
      causes: [
        {
          rule: 'list-length',
          field: 'spec.domain.devices.disks',
          value: 284,
          reason: 'FieldValueTooMany',
          message:
            'must have at most 256 items, and has 284 including those of presets: "site" has 100, "team/d" has 62, "team/b" has 61 and 1 more presets',
          suggestion: 'change the labels so that fewer of these presets match, or shorten their lists',
        },
      ],
      unsettled: ['spec.domain.devices.disks'],
      domain: { ...sent.spec.domain, title: 't' },
    })
  })

  test('is a cause for volumes too, which are not reported as skipped', () => {
    const volumes = (name: string) =>
      Array.from({ length: 200 }, (_, index) => ({ name: `${name}${index}`, emptyDisk: { capacity: '1Gi' } }))
    const { causes, skipped } = injectSmall(vmWith({}), [
      preset('a', { volumes: volumes('a') }),
      preset('b', { volumes: volumes('b') }),
    ])
    expect([causes.map(({ field }) => field), skipped]).toEqual([['spec.volumes'], []])
  })

  test('is not reported if presets only change existing items', () => {
    const { causes } = injectSmall(vmWith(disks('u', 256)), [preset('a', { domain: disks('u', 256) })])
    expect(causes).toEqual([])
  })
})

test('16 cluster presets and 16 of the namespace in mode Audit are tried, and a warning names the others', () => {
  const title = (index: number) => ({ mode: 'Audit', domain: { title: `t${index}` } })
  const { audit, warnings } = injectSmall(vmWith({}), [
    ...Array.from({ length: 400 }, (_, index) => preset(`p${index}`, { ...title(index), priority: 400 - index })),
    clusterPreset('site', title(0)),
  ])
  expect(audit.map(({ preset: { id } }) => id)).toEqual([
    ...Array.from({ length: 16 }, (_, index) => `team/p${index}`),
    'site',
  ])
  expect(warnings).toEqual([
    '384 presets in mode Warn or Audit match but were not tried because there are too many: "team/p16", "team/p17", "team/p18" and 381 more',
  ])
})

describe('many presets', () => {
  const times = <T>(count: number, make: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, at) => make(at))
  const annotations = (count: number, value: string) =>
    Object.fromEntries(times(count, (index) => [`a${index}`, `${value}${index}`]))

  test('a conflict names three presets, those with different values first', () => {
    const { causes } = injectSmall(vmWith({}), [
      ...times(30, (index) => preset(`p${index + 10}`, { domain: { title: 'one' } })),
      preset('p90', { domain: { title: 'two' } }),
    ])
    expect(causes).toEqual([
      {
        rule: 'preset-conflict',
        field: 'spec.domain.title',
        reason: 'FieldValueInvalid',
        message:
          'presets of one layer (namespace Default) and priority (0) disagree: "team/p10" sets "one", "team/p11" sets "one", "team/p90" sets "two" and 28 more presets',
        suggestion:
          'set the field in the VM, or give one preset a higher priority, or exclude one by virtset.io/exclude-presets (p10, p11, p12 and 28 more), or change the labels so that one matches',
      },
    ])
  })

  test('a refusal names 256 conflicts and counts the others, so its size is bounded', () => {
    const long = 'x'.repeat(240)
    const { causes } = injectSmall(
      vmWith({}),
      times(20, (index) => preset(`${long}${index}`, { metadata: { annotations: annotations(300, `v${index}-`) } })),
    )
    expect([causes.length, causes.at(-1)?.value]).toEqual([257, 44])
    expect(JSON.stringify(causes).length).toBeLessThan(256 * 8 * (long.length + 100))
  })

  test('three presets of an exclusive group are named, and 256 groups', () => {
    const { causes } = injectSmall(
      vmWith({}),
      times(300 * 4, (index) => preset(`p${index}`, { exclusiveGroup: `g${index % 300}` })),
    )
    expect([causes.length, causes.at(-1)?.value, causes[0]?.message]).toEqual([
      257,
      44,
      'select 4 presets of the exclusive group "g0", of which at most one may match: team/p0, team/p300, team/p600 and 1 more',
    ])
  })

  test('warnings name 32 fields that presets changed, and 32 that they removed', () => {
    const { warnings } = injectSmall(
      vmWith({}, { annotations: annotations(40, 'mine'), spec: { nodeSelector: annotations(40, 'mine') } }),
      [
        enforce({
          metadata: { annotations: annotations(40, 'theirs') },
          remove: times(40, (index) => `nodeSelector.a${index}`),
        }),
      ],
    )
    expect(warnings.filter((warning) => warning.includes('more fields'))).toEqual([
      'presets changed 8 more fields',
      'presets removed 8 more fields',
    ])
    expect(warnings).toHaveLength(66)
  })

  test('the strongest overridden value and the user’s are recorded', () => {
    const { overridden } = injectSmall(vmWith({ title: 'mine' }), [
      ...times(9, (index) => preset(`p${index}`, { priority: index, domain: { title: `t${index}` } })),
      ...times(9, (index) =>
        preset(`e${index}`, { strength: 'Enforce', priority: index, domain: { title: `e${index}` } }),
      ),
    ])
    expect(overridden.get('spec.domain.title')?.map(({ value }) => value)).toEqual(['e7', 'mine'])
  })

  test('at most 256 skipped values are recorded', () => {
    const disks = (from: number) => times(30, (index) => ({ target: { dev: `vd${from + index}` } }))
    const presets = times(10, (index) => preset(`p${index}`, { domain: { devices: { disks: disks(index * 30) } } }))
    expect(injectSmall(vmWith({}), presets).skipped).toHaveLength(256)
  })

  /** The steps of merging beyond one visit to each value, which is counted separately. */
  const beyond = (user: object, count: number, spec: (index: number) => { readonly [key: string]: unknown }) => {
    const presets = times(count, (index) => preset(`p${index}`, { strength: 'Enforce', ...spec(index) }))
    let spent = 0
    injectSmall(vmWith({}, user), presets, { steps: { spend: (steps) => (spent += steps) } })
    const sizes = presets.reduce((sum, { content }) => sum + 1 + sizeOf(content), 0)
    return spent - sizes
  }

  test.each<[string, object, number, (index: number) => { readonly [key: string]: unknown }]>([
    [
      'an overridden value',
      { annotations: { a: 'mine', b: 'mine' } },
      2 * 2,
      (index) => ({ priority: index, metadata: { annotations: { a: `${index}`, b: `${index}` } } }),
    ],
    ['a value in a conflict', {}, 2, (index) => ({ metadata: { annotations: { a: `${index}`, b: `${index}` } } })],
    [
      'a new item that is skipped',
      {},
      2,
      (index) => ({ domain: { devices: { disks: [{ target: { dev: `vd${index}` } }] } } }),
    ],
    [
      'a path to remove, at each level',
      { spec: { nodeSelector: { a: 'mine' } } },
      3,
      () => ({ remove: ['nodeSelector.a'] }),
    ],
  ])('each of them costs steps: %s', (_, user, each, spec) => {
    expect(beyond(user, 200, spec) - beyond(user, 100, spec)).toBe(100 * each)
  })
})

import { describe, expect, test } from 'vitest'
import { isSameValue, nothingRecorded, recordedOrigins, restoreSpec, type RecordedOrigins } from './update.ts'

const stored = {
  domain: {
    memory: { unit: 'MB', value: 64 },
    devices: {
      disks: [{ target: { dev: 'vda', bus: 'virtio' }, readonly: {} }, { target: { dev: 'vdb', bus: 'virtio' } }],
      serials: [{ type: 'pty' }],
    },
  },
}
/** The user wrote the memory and the first disk. */
const users: ReadonlySet<string> = new Set([
  'spec.domain.memory.unit',
  'spec.domain.memory.value',
  'spec.domain.devices.disks[0].target.dev',
])
const origins: RecordedOrigins = {
  enforced: new Map(),
  isUsers: (path: string) => users.has(path),
  // A preset enforced virtio instead of sata, and removed the user's title.
  isOverridden: (path: string) => path === 'spec.domain.devices.disks[1].target.bus',
  isRemoved: (path: string) => path === 'spec.domain.title',
  hasLost: () => false,
  shortened: new Map(),
}
const memory = { unit: 'MB', value: 64 }
const disk = { target: { dev: 'vda' } }

describe('a manifest sent again', () => {
  const restored = (sent: unknown) => restoreSpec(sent, stored, origins)

  test.each<[string, unknown]>([
    ['as stored', stored],
    ['as its author wrote it', { domain: { memory, devices: { disks: [disk] } } }],
    ['in an equivalent spelling', { domain: { memory: { unit: 'MB', value: '64' }, devices: { disks: [disk] } } }],
    [
      'with values that a preset overrode or removed',
      { domain: { memory, title: 'x', devices: { disks: [disk, { target: { dev: 'vdb', bus: 'sata' } }] } } },
    ],
    ['with a part of what completion added', { domain: { memory, devices: { disks: [disk], serials: [{}] } } }],
  ])('%s is restored to the completed spec', (_, sent) => expect(restored(sent)).toEqual({ restored: stored }))

  test.each<[string, unknown, string[]]>([
    [
      'with another value',
      { domain: { memory: { unit: 'MB', value: 128 }, devices: { disks: [disk] } } },
      ['spec.domain.memory.value: cannot be changed from 64'],
    ],
    [
      'with another value than completion added',
      { domain: { memory, devices: { disks: [{ target: { dev: 'vda', bus: 'sata' } }] } } },
      ['spec.domain.devices.disks[0].target.bus: cannot be changed from "virtio"'],
    ],
    [
      'with new fields',
      { domain: { memory, uuid: 'x', devices: { disks: [disk] } }, 'a.b': 1 },
      ['spec.domain.uuid: cannot be added', 'spec[a.b]: cannot be added'],
    ],
    [
      'with a further disk',
      { domain: { memory, devices: { disks: [disk, {}, { target: { dev: 'vdc' } }] } } },
      ['spec.domain.devices.disks[2]: cannot be added'],
    ],
    [
      'without values that the user wrote',
      { domain: { memory: { unit: 'MB' }, devices: {} } },
      [
        'spec.domain.memory.value: cannot be removed (64)',
        'spec.domain.devices.disks: cannot be removed ([{"target":{"dev":"vda","bus":"virtio"},"readonly":{}},{"ta…)',
      ],
    ],
    [
      'of another type',
      'x',
      ['spec: cannot be changed from {"domain":{"memory":{"unit":"MB","value":64},"devices":{"di…'],
    ],
  ])('%s is refused', (_, sent, expected) => {
    const outcome = restored(sent)
    const causes = 'causes' in outcome ? outcome.causes : []
    expect(causes.map(({ field, message }) => `${field}: ${message}`)).toEqual(
      expected.map((sentence) => `${sentence}: a VM's spec is immutable after creation`),
    )
  })

  const immutable = "a VM's spec is immutable after creation"
  test.each<[unknown, unknown, object]>([
    [
      { a: { b: 1 } },
      { a: 1 },
      { field: 'spec.a', value: { b: 1 }, message: `cannot be changed from 1: ${immutable}` },
    ],
    [{ a: 1 }, { a: { b: 1 } }, { field: 'spec.a', value: 1, message: `cannot be changed from {"b":1}: ${immutable}` }],
    [{ a: [1] }, { a: 1 }, { field: 'spec.a', value: [1], message: `cannot be changed from 1: ${immutable}` }],
    [{ a: 1 }, { a: [1] }, { field: 'spec.a', value: 1, message: `cannot be changed from [1]: ${immutable}` }],
    [{ a: [1] }, { a: [1, 2] }, { field: 'spec.a[1]', message: `cannot be removed (2): ${immutable}` }],
    [{ a: 1 }, { a: 1, b: { c: [0] } }, { field: 'spec.b', message: `cannot be removed ({"c":[0]}): ${immutable}` }],
  ])('%j in place of %j', (sent, stored, expected) => {
    const reason = 'value' in expected ? 'FieldValueInvalid' : 'FieldValueForbidden'
    expect(restoreSpec(sent, stored, nothingRecorded)).toEqual({
      causes: [{ rule: 'spec-immutable', reason, ...expected }],
    })
  })

  test('reports fifty differences and counts the rest', () => {
    const sent = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`key${index}`, index]))
    const outcome = restored({ ...sent, domain: { memory, devices: { disks: [disk] } } })
    const causes = 'causes' in outcome ? outcome.causes : []
    expect([causes.length, causes.at(-1)?.message.startsWith('has 10 more differences:')]).toEqual([51, true])
  })

  const numbers = Array.from({ length: 100_000 }, (_, index) => index)
  const members = Object.fromEntries(numbers.map((index) => [`key${index}`, index]))
  test.each<[string, unknown, unknown]>([
    ['new fields', members, { domain: {} }],
    ['new items', { list: numbers }, { list: [] }],
    ['changed items', { list: numbers }, { list: numbers.map((index) => index + 1) }],
    ['changed fields', members, Object.fromEntries(Object.keys(members).map((key) => [key, 'x']))],
    ['removed fields', {}, members],
    ['removed items', { list: [] }, { list: numbers }],
    ['new fields of several items', { list: [members, members] }, { list: [{}, {}] }],
  ])('stops comparing after a thousand more: %s', (_, sent, other) => {
    let looked = 0
    const count = (found: boolean) => () => {
      looked += 1
      return found
    }
    const outcome = restoreSpec(sent, other, {
      enforced: new Map(),
      shortened: new Map(),
      isUsers: count(true),
      isOverridden: count(false),
      isRemoved: () => false,
      hasLost: () => false,
    })
    const causes = 'causes' in outcome ? outcome.causes : []
    expect([causes.length, causes.at(-1)?.message.startsWith('has at least 1000 more differences:')]).toEqual([
      51,
      true,
    ])
    expect(looked).toBeLessThan(1100)
  })
})

describe('recorded origins', () => {
  const vm = (annotations: { [key: string]: string }) => ({
    apiVersion: 'virtset.io/v1alpha1' as const,
    kind: 'VirtualMachine' as const,
    metadata: { name: 'vm', annotations },
    spec: { domain: { title: 'x', description: 'd' } },
  })
  /** A preset overrode the user's title "mine" and a long name, removed the user's uuid and set the description. */
  const provenance = JSON.stringify({
    v: 1,
    by: ['user', ['team', 'takes', '1a2b']],
    at: { spec: { domain: { title: 1, description: 1, name: 1 } } },
    over: { spec: { domain: { title: [[0, 'mine']], name: [0], description: [1] } } },
    gone: { spec: { domain: { uuid: 1 } } },
  })

  test.each<[string, string, string, boolean, boolean]>([
    ['the user set', 'type', 'mine', true, false],
    ['a preset overrode', 'title', 'mine', false, true],
    ['a preset overrode, when it was another', 'title', 'another', false, false],
    ['a preset overrode, when it was too long to be recorded', 'name', 'any', false, true],
    ['a preset took from another preset', 'description', 'mine', false, false],
    ['a preset removed', 'uuid', 'any', true, false],
  ])('of a value that %s', (_, key, value, isUsers, isOverridden) => {
    const origins = recordedOrigins(vm({ 'virtset.io/completed-by': provenance }))
    const at = `spec.domain.${key}`
    expect([origins.isUsers(at), origins.isOverridden(at, value)]).toEqual([isUsers, isOverridden])
  })

  describe('of values and units that presets override together, and of what presets remove', () => {
    const stored = {
      domain: {
        memory: { unit: 'GiB', value: 1, dumpCore: 'on' },
        clock: { offset: 'utc' },
        serials: [{ type: 'pty' }],
      },
    }
    const origins = recordedOrigins(
      vm({
        'virtset.io/completed-by': JSON.stringify({
          v: 1,
          by: ['user', ['team', 'takes', '1a2b']],
          at: { spec: { domain: { memory: 1, clock: 1 } } },
          over: {
            spec: {
              domain: {
                memory: [[0, { value: 131_072 }]],
                clock: { offset: [[0, 'variable']], adjustment: [[0, '3600']] },
                pm: { mem: [[0, { on: true }]] },
              },
            },
          },
          gone: { spec: { domain: { features: { acpi: 1 }, serials: { 0: { type: 1 } } } } },
        }),
      }),
    )
    const allowed = { restored: stored }
    const refused = (...fields: string[]) => ({ causes: fields.map((field) => expect.objectContaining({ field })) })

    test.each<[object, object]>([
      [{ memory: { value: 131_072 } }, allowed],
      [{ memory: { unit: 'GiB', value: 131_072, dumpCore: 'on' } }, allowed],
      [{ memory: { unit: 'GiB', value: 1 } }, allowed],
      [{ memory: { unit: 'GiB', value: 2 } }, refused('spec.domain.memory.value')],
      [{ memory: { unit: 'MiB', value: 131_072 } }, refused('spec.domain.memory.unit')],
      [{ memory: { value: 131_072, nodes: 1 } }, refused('spec.domain.memory.nodes')],
      [{ clock: { offset: 'variable', adjustment: '3600' } }, allowed],
      [{ clock: { offset: 'variable', adjustment: '0' } }, refused('spec.domain.clock.adjustment')],
      [{ features: { acpi: {} } }, allowed],
      [{ features: { apic: {} } }, refused('spec.domain.features.apic')],
      [{ features: {} }, refused('spec.domain.features')],
      [{ pm: { mem: { on: true } } }, allowed],
      [{ pm: { mem: { on: true, off: 1 } } }, refused('spec.domain.pm.mem.off')],
      [{ serials: [{ type: 'null' }] }, refused('spec.domain.serials[0].type')],
    ])('%j', (domain, expected) =>
      expect(restoreSpec({ domain: { serials: [{ type: 'pty' }], ...domain } }, stored, origins)).toEqual(expected),
    )
  })

  test.each<{ [key: string]: string }>([{}, { 'virtset.io/completed-by': 'broken' }])(
    'without readable provenance, every value is the user\u2019s: %j',
    (annotations) => {
      const origins = recordedOrigins(vm(annotations))
      expect([origins.isUsers('spec.domain.title'), origins.isOverridden('spec.domain.title', 'x')]).toEqual([
        true,
        false,
      ])
    },
  )
})

describe('values are the same', () => {
  test.each<[unknown, unknown, boolean]>([
    [64, '64', true],
    [true, 'yes', true],
    ['on', true, true],
    ['no', false, true],
    ['off', 'false', true],
    ['on', 'off', false],
    [null, null, true],
    [null, 'null', false],
    [{}, 'x', false],
    [[1, '2'], ['1', 2], true],
    [[1], [1, 2], false],
    [[1], { 0: 1 }, false],
    [{ length: 1 }, [1], false],
    [[1], { length: 1 }, false],
    [[1], [2], false],
    ['x', ['x'], false],
    [{}, 7, false],
    [{ a: 1 }, { a: 2 }, false],
    [{ a: 1 }, { a: '1' }, true],
    [{ a: 1 }, { b: 1 }, false],
    [{ a: 1 }, { a: 1, b: 1 }, false],
    [JSON.parse('{"__proto__":{}}'), { a: 1 }, false],
  ])('%j and %j: %j', (left, right, expected) => expect(isSameValue(left, right)).toBe(expected))
})

import { describe, expect, test } from 'vitest'
import type { Preset } from '../api/preset.ts'
import { parsePreset } from '../api/preset.ts'
import { checkPreset } from './check.ts'
import { compilePreset } from './compile.ts'
import { bombs } from '../test/presets/bombs.ts'
import { needsGrant } from './grant.ts'

type Given = { readonly [key: string]: unknown }

const written = (spec: Given, kind = 'VirtualMachinePreset'): Preset => {
  const parsed = parsePreset({
    apiVersion: 'virtset.io/v1alpha1',
    kind,
    metadata: { name: 'p', ...(kind === 'VirtualMachinePreset' ? { namespace: 'team' } : {}) },
    spec: { selector: { matchLabels: { app: 'web' } }, ...spec },
  })
  if ('causes' in parsed) throw new Error(JSON.stringify(parsed.causes))
  return parsed.preset
}

const enforce = (...remove: string[]) => ({ strength: 'Enforce', remove })

/** A disk with a chain of `depth` backing stores. */
const nested = (depth: number): object => {
  let disk: object = {}
  for (let level = 0; level < depth; level++) disk = { backingStore: disk }
  return { devices: { disks: [disk] } }
}

const conditions = (...expressions: string[]): Given => ({
  matchConditions: expressions.map((expression, index) => ({ name: `c${index}`, expression })),
  domain: { title: 't' },
})
const disks = 'object.spec.domain.devices.disks'
const sizes = 'on a VM with lists of 32 items and texts of 128 characters'
const pairs = `${disks}.all(a, ${disks}.exists_one(b, b.target.dev == a.target.dev))`

describe('conditions that cost too much are refused when the preset is written', () => {
  test.each<[string, Given, string[]]>([
    [
      'three nested loops',
      conditions('true', `${disks}.all(a, ${disks}.all(b, ${disks}.all(c, true)))`),
      [
        `spec.matchConditions[1].expression: condition "c1" could take 142,696 steps ${sizes}, most of them in ${disks}.all(c, true); a preset is allowed 100,000 steps`,
      ],
    ],
    [
      'many conditions that are each cheap',
      conditions(...Array.from({ length: 6 }, () => pairs)),
      [
        `spec.matchConditions: the conditions together could take 118,896 steps ${sizes}; a preset is allowed 100,000 steps`,
      ],
    ],
    [
      'patterns that are too large together',
      conditions(...Array.from({ length: 20 }, (_, index) => `object.metadata.name.matches("(a?){200}${index}")`)),
      [
        'spec.matchConditions: the patterns of all conditions have more than 5000 instructions together, each repetition written out',
      ],
    ],
    [
      'a pattern whose case folding takes seconds',
      conditions(`object.metadata.name.matches("(?i)${'[Ā-￿]'.repeat(100)}")`),
      [
        'spec.matchConditions[0].expression: its regular expressions have more than 5000 instructions, with each repetition written out: use smaller numbers in {}, or no Unicode classes together with (?i)',
      ],
    ],
    [
      'patterns that are invalid and large: the rest is not compiled',
      conditions(...Array.from({ length: 20 }, () => 'object.metadata.name.matches("a{900}a{900}(")')),
      [
        ...[0, 1].map(
          (index) =>
            `spec.matchConditions[${index}].expression: invalid regular expression: a{900}a{900}( (error parsing regexp: missing closing ): \`a{900}a{900}(\`)`,
        ),
        'spec.matchConditions: the patterns of all conditions have more than 5000 instructions together, each repetition written out',
      ],
    ],
    [
      'very long expressions',
      conditions(...Array.from({ length: 20 }, () => `object.metadata.name != "${'a'.repeat(1000)}"`)),
      ['spec.matchConditions: the expressions have 20520 characters together; at most 16384 are allowed'],
    ],
  ])('%s', (_, spec, messages) => {
    expect(checkPreset(written(spec)).causes.map(({ field, message }) => `${field}: ${message}`)).toEqual(messages)
  })

  test.each(bombs.filter(([title]) => / (doubled|twice|loops in loops$|patterns)/.test(title)))(
    '%s',
    (_, expression) => {
      expect(checkPreset(written(conditions(expression))).causes).toMatchObject([{ rule: 'preset-condition-cost' }])
    },
  )

  test.each([
    pairs,
    `${disks}.all(d, d.target.dev.matches("^vd[a-z]$"))`,
    `${disks}.all(d, d in ${disks})`,
    `${disks}.exists(d, object.spec.volumes.exists(v, v.name == d.source.volume && has(v.emptyDisk)))`,
    'object.metadata.name.matches("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")',
    'object.metadata.labels.all(k, !(k in namespaceObject.metadata.labels) || object.metadata.labels[k] == namespaceObject.metadata.labels[k])',
    'object.spec.volumes.all(v, !has(v.emptyDisk) || quantity(v.emptyDisk.capacity).isLessThan(quantity("10Gi")))',
    'object.spec.volumes.map(v, v.name).join(",").contains("data")',
    'object.metadata.annotations["owners"].split(",").exists(owner, owner == request.userInfo.username)',
    'object == object',
    'object.metadata.name.matches(object.metadata.annotations["pattern"])',
  ])('but not %s', (expression) => {
    expect(checkPreset(written(conditions(expression))).causes).toEqual([])
  })
})

describe('a preset is refused when it is written', () => {
  test.each<[string, Given, string[]]>([
    [
      'with an invalid expression',
      {
        matchConditions: [
          { name: 'a', expression: 'object.' },
          { name: 'b', expression: '1' },
        ],
        domain: { title: 't' },
      },
      [
        'spec.matchConditions[0].expression: Expected IDENTIFIER, got EOF',
        'spec.matchConditions[1].expression: must be true or false, not int',
      ],
    ],
    [
      'with a selector that contradicts itself',
      {
        selector: { matchLabels: { a: '1' }, matchExpressions: [{ key: 'a', operator: 'DoesNotExist' }] },
        domain: { title: 't' },
      },
      ['spec.selector: contradicts itself: no labels can match it'],
    ],
    [
      'with a removal in strength Default',
      { remove: ['domain.title'] },
      ['spec.remove: needs strength Enforce: a default only fills what is absent'],
    ],
    [
      'with removals of paths that do not exist',
      enforce('domain', 'domain.titel', 'domain.devices.disks.target', 'domain.title.text', '[0]', 'domain..title'),
      [
        'spec.remove[0]: would remove the whole domain',
        'spec.remove[1]: does not exist: no field "titel"',
        'spec.remove[2]: does not exist: the part before "target" is a list: select an item with [0] or [KEY=VALUE]',
        'spec.remove[3]: does not exist: the part before "text" has no fields',
        'spec.remove[4]: must be a path such as domain.devices.disks[target.dev=vdb]',
        'spec.remove[5]: must be a path such as domain.devices.disks[target.dev=vdb]',
      ],
    ],
    [
      'that removes what it sets',
      { ...enforce('domain.title'), domain: { title: 't' } },
      ['spec.remove[0]: is also set by this preset: a preset cannot both set and remove a field'],
    ],
    [
      'that sets the identity of a VM',
      { domain: { name: 'n', uuid: '00000000-0000-0000-0000-000000000001' } },
      [
        'spec.domain.name: must not be injected: it is unique to each VM',
        'spec.domain.uuid: must not be injected: it is unique to each VM',
      ],
    ],
    [
      'that reaches the host from a namespace',
      { domain: { devices: { emulator: '/usr/bin/qemu' } } },
      ['spec.domain.devices.emulator: reaches the host, which only a ClusterVirtualMachinePreset may grant'],
    ],
    [
      'with two items of the same key',
      {
        domain: {
          clock: {
            timers: [
              { name: 'hpet', present: true },
              { name: 'hpet', present: false },
            ],
          },
        },
      },
      ['spec.domain.clock.timers[1]: is the same item as spec.domain.clock.timers[0]'],
    ],
    [
      'that is larger than 64 KiB, without any further check',
      { matchConditions: [{ name: 'a', expression: '(' }], metadata: { annotations: { a: 'x'.repeat(64 * 1024) } } },
      ['spec: must be at most 65536 bytes of JSON'],
    ],
  ])('%s', (_, spec, expected) => {
    expect(checkPreset(written(spec)).causes.map(({ field, message }) => `${field}: ${message}`)).toEqual(expected)
  })

  test('with unknown fields, suggesting the most similar known one for each', () => {
    const { causes } = checkPreset(
      written({ domain: { titel: 't', devices: { disks: [{ tpye: 'file', target: { dev: 'vda' } }] } } }),
    )
    expect(causes.map(({ field, suggestion }) => [field, suggestion])).toEqual([
      ['spec.domain.titel', 'did you mean "title"?'],
      ['spec.domain.devices.disks[0].tpye', 'did you mean "type"?'],
    ])
  })
})

describe('the size of a preset', () => {
  const sized = (bytes: number, kind?: string): Preset => {
    const made = (text: string) => written({ metadata: { annotations: { a: text } } }, kind)
    return made('x'.repeat(bytes - JSON.stringify(made('').spec).length))
  }
  test.each<[string, Preset, readonly string[]]>([
    ['of a namespace is at most 64 KiB', sized(65_536), []],
    ['of a namespace is refused with a byte more', sized(65_537), ['preset-size']],
    ['of the cluster is not limited', sized(65_537, 'ClusterVirtualMachinePreset'), []],
  ])('%s', (_, preset, expected) => {
    expect(checkPreset(preset).causes.map(({ rule }) => rule)).toEqual(expected)
  })
})

test('a namespace selector in a namespaced preset is refused with the kind that has one', () => {
  const parsed = parsePreset({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { name: 'p', namespace: 'team' },
    spec: { selector: {}, namespaceSelector: {} },
  })
  expect('causes' in parsed ? parsed.causes.map(({ field, suggestion }) => [field, suggestion]) : []).toEqual([
    ['spec.namespaceSelector', 'use a ClusterVirtualMachinePreset'],
  ])
})

test('a path to remove that resembles no field is refused without a suggestion', () => {
  expect(checkPreset(written(enforce('domain.qqqqqqqqqqqq'))).causes.map(({ suggestion }) => suggestion)).toEqual([
    undefined,
  ])
  expect(checkPreset(written(enforce('domain.titel'))).causes.map(({ suggestion }) => suggestion)).toEqual([
    'did you mean "title"?',
  ])
  expect(checkPreset(written(enforce('spec.domain.title'))).causes.map(({ suggestion }) => suggestion)).toEqual([
    'leave out "spec.": paths begin below it',
  ])
})

test.each([
  ['domain.devices.disks[0].drivr.cache', 'does not exist: no field "drivr"'],
  ['domain.devices.disks[0].driver.cach', 'does not exist: no field "cach"'],
  ['domain.devices.disks[target.dve=vda]', 'does not exist: no field "dve"'],
  ['domain.devices.disks[target.dev.a=vda]', 'does not exist: the part before "a" has no fields'],
  ['domain.devices.disks[..a=vda]', 'does not exist: no field ""'],
  [
    'domain.cputune.cachetunes[monitors.level=3]',
    'does not exist: the part before "level" is a list: select an item with [0] or [KEY=VALUE]',
  ],
])('the path %s is refused below an item of a list', (path, message) => {
  expect(checkPreset(written(enforce(path))).causes.map((cause) => cause.message)).toEqual([message])
})

test('a cluster preset for every VM is accepted with a warning', () => {
  const { warnings } = checkPreset(written({ selector: {}, domain: { title: 't' } }, 'ClusterVirtualMachinePreset'))
  expect(warnings).toEqual([expect.stringMatching(/^spec\.selector: \{\} selects every VM of every namespace/)])
})

test('a field of an item that has no effect beside the others is accepted with a warning', () => {
  const disk = { type: 'volume', source: { volume: 'v', file: '/x' }, target: { dev: 'vda' } }
  const { warnings } = checkPreset(written({ domain: { devices: { disks: [disk] } } }, 'ClusterVirtualMachinePreset'))
  expect(warnings).toEqual([expect.stringMatching(/^spec\.domain\.devices\.disks\[0\]\.source: has no effect/)])
})

test('the same item twice in a list of an item is refused', () => {
  const domain = { devices: { interfaces: [{ type: 'bridge', vlan: { tags: [{ id: 1 }, { id: 1 }] } }] } }
  expect(checkPreset(written({ domain }, 'ClusterVirtualMachinePreset')).causes.map(({ field }) => field)).toEqual([
    'spec.domain.devices.interfaces[0].vlan.tags[1]',
  ])
})

test('of an element that reaches the host, nothing below is reported', () => {
  const { causes } = checkPreset(written({ domain: { resource: { fibrechannel: { appid: 'a' } } } }))
  expect(causes.map(({ field }) => field)).toEqual(['spec.domain.resource'])
})

test('a preset of a namespace needs no grant, since it must not reach the host', () => {
  expect(needsGrant(written({ domain: { devices: { emulator: '/usr/bin/qemu' } } }))).toBe(false)
})

test('the same item twice in a list within an item is refused', () => {
  const timers = [{ name: 'rtc' }, { name: 'rtc' }]
  expect(
    checkPreset(written({ domain: { clock: { timers } } })).causes.map(({ field, message }) => [field, message]),
  ).toEqual([['spec.domain.clock.timers[1]', 'is the same item as spec.domain.clock.timers[0]']])
})

test.each([
  [16_384, []],
  [16_385, ['preset-condition-cost']],
])('expressions of %i characters together', (length, expected) => {
  const expressions = [...Array.from({ length: 4 }, () => 'true'.padEnd(4000)), 'true'.padEnd(length - 16_000)]
  const { causes } = checkPreset(written(conditions(...expressions)))
  expect(causes.map(({ rule }) => rule)).toEqual(expected)
})

test('a preset can remove one field and set another in the same object', () => {
  const { causes } = checkPreset(
    written({ ...enforce('domain.os.bios'), domain: { title: 't', os: { type: { os: 'hvm' } } } }),
  )
  expect(causes).toEqual([])
})

test.each<[string, Given, string[]]>([
  ['for every VM', { selector: {}, domain: { title: 't' } }, ['spec.selector: {} selects every VM of its namespace']],
  ['without content', {}, ['spec: injects nothing and removes nothing']],
  ['with a label only', { metadata: { labels: { a: 'b' } } }, []],
  ['with a field beside the domain only', { nodeSelector: { a: 'b' } }, []],
  [
    'that removes a field of an item',
    enforce('domain.devices.disks[0].driver.cache', 'domain.devices.disks[target.dev=vda].serial'),
    [],
  ],
  [
    'with items that differ in the only key that they have',
    {
      domain: {
        devices: { interfaces: ['52:54:00:00:00:01', '52:54:00:00:00:02'].map((address) => ({ mac: { address } })) },
      },
    },
    [],
  ],
  [
    'with fields that are not valid in its union branch',
    {
      domain: {
        clock: { offset: 'utc', timezone: 'Europe/Vienna', timers: [{ name: 'rtc' }] },
      },
    },
    ['spec.domain.clock.timezone: has no effect together with the other fields that this preset sets'],
  ],
  ['that selects a union branch and sets its fields', { domain: { clock: { offset: 'utc', adjustment: 5 } } }, []],
  [
    'that removes what libvirt sets again',
    enforce('domain.clock', 'domain.devices.inputs[0]', 'domain.title'),
    [
      'spec.remove[0]: libvirt sets domain.clock again if it is absent',
      'spec.remove[1]: libvirt sets domain.devices.inputs again if it is absent',
    ],
  ],
])('a preset %s is accepted with a warning', (_, spec, warnings) => {
  expect(checkPreset(written(spec))).toEqual({ causes: [], warnings })
})

test("the key '*' is accepted although it is not a valid value of its field", () => {
  const domain = { devices: { disks: [{ target: { dev: '*' }, driver: { cache: 'none' } }] } }
  expect(checkPreset(written({ domain })).causes).toEqual([])
})

test.each<[string, Given, boolean]>([
  ['an emulator', { devices: { emulator: '/usr/bin/qemu' } }, true],
  ['a title', { title: 't' }, false],
])('writing a cluster preset with %s requires the verb grant-host: %s', (_, domain, needs) => {
  const preset = written({ domain }, 'ClusterVirtualMachinePreset')
  expect(checkPreset(preset).causes).toEqual([])
  expect(needsGrant(preset)).toBe(needs)
})

describe('a broken preset that was stored anyway', () => {
  test.each<[string, unknown, string, number | undefined]>([
    ['nothing', undefined, 'default/', undefined],
    ['a list', [], 'default/', undefined],
    ['no spec', { kind: 'VirtualMachinePreset', metadata: { name: 'p', namespace: 'team' } }, 'team/p', undefined],
    [
      'a deeply nested domain',
      {
        apiVersion: 'virtset.io/v1alpha1',
        kind: 'ClusterVirtualMachinePreset',
        metadata: { name: 'd' },
        spec: { selector: { matchLabels: { a: 'b' } }, domain: nested(9000) },
      },
      'd',
      1,
    ],
    [
      'a bad expression',
      {
        apiVersion: 'virtset.io/v1alpha1',
        kind: 'ClusterVirtualMachinePreset',
        metadata: { name: 'c' },
        spec: { selector: { matchLabels: { a: 'b' } }, matchConditions: [{ name: 'x', expression: '(' }] },
      },
      'c',
      1,
    ],
    [
      'an unknown field, and a selector with matchExpressions',
      {
        kind: 'VirtualMachinePreset',
        metadata: { name: 'e', namespace: 'team' },
        spec: { selector: { matchExpressions: [{ key: 'a', operator: 'In', values: ['b'] }] }, domain: { gone: 1 } },
      },
      'team/e',
      1,
    ],
    [
      'a selector with an invalid label value',
      {
        kind: 'VirtualMachinePreset',
        metadata: { name: 'l', namespace: 'team' },
        spec: { selector: { matchLabels: { a: 'not a label' } }, domain: { gone: 1 } },
      },
      'team/l',
      undefined,
    ],
    [
      'an invalid selector',
      {
        kind: 'VirtualMachinePreset',
        metadata: { name: 's', namespace: 'team' },
        spec: { selector: { matchLabels: { a: 7 }, matchExpressions: [{ key: 'a', operator: 'Is' }] } },
      },
      'team/s',
      undefined,
    ],
  ])('(%s) is quarantined without an exception', (_, value, id, requirements) => {
    const compiled = compilePreset(value)
    if (!('quarantined' in compiled)) throw new Error('was compiled')
    expect(compiled.quarantined.id).toBe(id)
    expect(compiled.quarantined.causes.length).toBeGreaterThan(0)
    expect(compiled.quarantined.selector?.requirements.length).toBe(requirements)
  })
})

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { deepFreeze } from '../api/deep-freeze.ts'
import { rootPath } from '../api/path.ts'
import { isRecord } from '../api/schema.ts'
import { gadget, gadgetPreset, injectGadget, specOf } from '../test/presets/objects.ts'
import { clusterPreset, injectSmall, preset, vmWith } from '../test/presets/make.ts'
import type { CompiledPreset } from './compile.ts'
import { emptyMerge, mergeSources } from './merge.ts'
import type { Structure } from './structure.ts'

/** Few values and keys, so that presets often collide. */
const pick = <T>(...values: T[]) => fc.constantFrom(...values)
const some = <T>(fields: { [key: string]: fc.Arbitrary<T> }) => fc.record(fields, { requiredKeys: [] })

const size = fc.oneof(
  fc.record({ unit: pick('KiB', 'MiB', 'GiB'), value: pick<number | string>(0, 1, '1024', 1024) }),
  fc.record({ value: pick(1, 1024) }),
)

const source = some<unknown>({
  file: pick('/a', '/b'),
  volume: pick('data', 'logs'),
  name: pick('n', ''),
  hosts: fc.array(fc.record({ name: pick('a', 'b') }), { maxLength: 2 }),
})

const diskFields = {
  type: pick('file', 'volume', 'network'),
  driver: some({ cache: pick('none', 'unsafe'), io: pick('native', 'threads') }),
  source,
  serial: pick('', 's'),
  readonly: fc.constant({}),
}

const disk = (devs: readonly string[]) =>
  fc.record(
    {
      ...diskFields,
      target: fc.record({ dev: fc.constantFrom(...devs), bus: pick('virtio', 'sata') }, { requiredKeys: ['dev'] }),
    },
    { requiredKeys: ['target'] },
  )

const unique = (keys: readonly string[]) =>
  fc.uniqueArray(disk(keys), { maxLength: 3, selector: ({ target }) => target.dev })

const clock = some<unknown>({
  offset: pick('utc', 'timezone', 'variable'),
  timezone: pick('Asia/Tokyo', 'Europe/Vienna'),
  adjustment: pick<number | string>(0, '0', 5),
  timers: fc.uniqueArray(
    fc.record({ name: pick('hpet', 'rtc'), present: pick<boolean | string>(true, false, 'yes', 'no') }),
    {
      selector: ({ name }) => name,
    },
  ),
})

const domain = (devs: readonly string[]) =>
  some<unknown>({
    type: pick('qemu', 'kvm'),
    title: pick('', 'a', 'b'),
    memory: size,
    vcpu: some<unknown>({ value: pick<number | string>(0, 1, '1'), cpuset: pick('0-1', '0,1') }),
    features: some({ acpi: fc.constant({}), apic: fc.constant({}) }),
    clock,
    boots: fc.uniqueArray(pick('hd', 'network')),
    words: fc.uniqueArray(pick('a', 'b', 'c')),
    devices: some<unknown>({
      disks: unique(devs),
      videos: fc.array(fc.record({ model: some<unknown>({ type: pick('vga', 'qxl'), vram: pick(1, 2) }) }), {
        maxLength: 2,
      }),
      serials: fc.array(some({ type: pick('pty', 'tcp'), log: pick('a', 'b') }), { maxLength: 2 }),
    }),
  })

const volumes = fc.uniqueArray(
  fc.oneof(
    fc.record({ name: pick('data', 'logs'), emptyDisk: fc.record({ capacity: pick('1Gi', '1024Mi', '2Gi') }) }),
    fc.record({ name: pick('data', 'logs'), cloudInit: some({ userData: pick('u', ''), metaData: pick('m') }) }),
  ),
  { maxLength: 2, selector: ({ name }) => name },
)

const others = some<unknown>({
  volumes,
  nodeSelector: fc.dictionary(pick('zone', '__proto__', 'constructor'), pick('a', 'b')),
  tolerations: fc.array(fc.record({ key: pick('a', 'b') }), { maxLength: 2 }),
  terminationGracePeriodSeconds: pick(0, 30),
})

const vms = fc
  .tuple(domain(['vda', 'vdb', 'vdc']), others, fc.dictionary(pick('size', 'app'), pick('small', 'large')))
  .map(([given, spec, labels]) => vmWith(given, { spec: isRecord(spec) ? spec : {}, labels }))

const selector = pick<unknown>(
  {},
  { matchLabels: { size: 'small' } },
  { matchExpressions: [{ key: 'app', operator: 'Exists' }] },
)

const presetSpec = fc
  .tuple(
    fc.record({
      selector,
      strength: pick('Default', 'Enforce'),
      priority: pick(0, 1),
      mode: pick('Apply', 'Apply', 'Apply', 'Warn', 'Audit'),
    }),
    some<unknown>({ domain: domain(['vda', 'vdb', 'vdd', '*']) }),
    others,
  )
  .map(([head, content, rest]) => ({ ...head, ...content, ...rest }))

const presets: fc.Arbitrary<CompiledPreset[]> = fc
  .array(fc.tuple(presetSpec, fc.boolean()), { maxLength: 5 })
  .map((specs) =>
    specs.map(([spec, isCluster], index) => (isCluster ? clusterPreset(`p${index}`, spec) : preset(`p${index}`, spec))),
  )

const runs = { numRuns: 400 }

/** path → value of every leaf, items of lists by index. */
function leaves(value: unknown, at = ''): Map<string, unknown> {
  const isLeaf = typeof value !== 'object' || value === null || Object.keys(value).length === 0
  if (isLeaf) return new Map([[at, value]])
  const join = (key: string) => {
    if (Array.isArray(value) || !/^\w+$/.test(key)) return `${at}[${key}]`
    return at === '' ? key : `${at}.${key}`
  }
  return new Map(Object.entries(value).flatMap(([key, member]) => [...leaves(member, join(key))]))
}

describe('for any VM and presets', () => {
  test('the order of presets does not matter', () => {
    const permuted = presets.chain((list) =>
      fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
    )
    fc.assert(
      fc.property(vms, permuted, (vm, [list, shuffled]) => {
        const text = JSON.stringify(injectSmall(vm, list), replaceMaps)
        expect(JSON.stringify(injectSmall(vm, shuffled), replaceMaps)).toBe(text)
      }),
      runs,
    )
  })

  test('injection is idempotent', () => {
    fc.assert(
      fc.property(vms, presets, (vm, list) => {
        const first = injectSmall(vm, list)
        if (first.causes.length > 0) return
        const again = injectSmall(first.vm, list)
        expect(again.causes).toEqual([])
        expect(again.vm).toEqual(first.vm)
        expect(again.vm).toBe(first.vm)
      }),
      runs,
    )
  })

  test('the arguments are not modified', () => {
    fc.assert(
      fc.property(vms, presets, (vm, list) => {
        const before = JSON.stringify(vm)
        deepFreeze(vm)
        injectSmall(vm, list)
        expect(JSON.stringify(vm)).toBe(before)
      }),
      runs,
    )
  })

  test('Default presets change no value of the user and move none', () => {
    fc.assert(
      fc.property(vms, presets, (vm, list) => {
        const defaults = list.filter(({ strength }) => strength === 'Default')
        const after = leaves(injectSmall(vm, defaults).vm)
        for (const [path, value] of leaves(vm)) {
          // A preset may add fields to an element that the user left empty.
          if (typeof value === 'object' && hasBelow(after, path)) continue
          const inList = after.has(path) ? path : path.replace('.host.', '.hosts[0].')
          expect({ path, value }).toEqual({ path, value: after.get(inList) })
        }
      }),
      runs,
    )
  })

  test('every change has an origin, and every origin is a change', () => {
    fc.assert(
      fc.property(vms, presets, (vm, list) => {
        const { vm: after, causes, origins } = injectSmall(vm, list)
        if (causes.length > 0) return
        const [was, is] = [leaves(vm), leaves(after)]
        for (const path of origins.keys()) expect(is.has(path) || hasBelow(is, path)).toBe(true)
        const changed = list.some(({ strength }) => strength === 'Enforce')
          ? []
          : [...is.keys()].filter((path) => !was.has(path))
        for (const path of changed) expect([path, originAbove(origins, path)]).toEqual([path, true])
        for (const [path, origin] of origins) {
          if (origin.by !== 'preset') throw new Error(`${path} is by ${origin.by}`)
        }
      }),
      runs,
    )
  })

  test('no preset of another namespace applies, and none in a protected namespace', () => {
    fc.assert(
      fc.property(vms, presets, (vm, list) => {
        const elsewhere = list.flatMap(({ namespace, name }) =>
          namespace === undefined ? [] : [preset(name, { domain: { title: 'x' } }, 'other')],
        )
        expect(injectSmall(vm, elsewhere).vm).toBe(vm)
        const system = { name: 'kube-system', labels: {} }
        expect(injectSmall(vm, list, { namespace: system }).vm).toBe(vm)
      }),
      runs,
    )
  })
})

const replaceMaps = (_: string, value: unknown): unknown => {
  if (value instanceof Map) return [...value]
  return typeof value === 'bigint' ? value.toString() : value
}

const hasBelow = (paths: ReadonlyMap<string, unknown>, path: string): boolean =>
  [...paths.keys()].some((other) => other.startsWith(`${path}.`) || other.startsWith(`${path}[`))

const originAbove = (origins: ReadonlyMap<string, unknown>, path: string): boolean =>
  [...origins.keys()].some((other) => path === other || path.startsWith(`${other}.`) || path.startsWith(`${other}[`))

test('the meaning of each source of a value is determined once, and costs what its text does', () => {
  let spent = 0
  const read: unknown[] = []
  const structure: Structure = {
    kind: 'leaf',
    meaning: (value) => {
      read.push(value)
      return String(value)
    },
    spelling: (value) => value,
  }
  const values = ['a'.repeat(640), 'b'.repeat(640), 'c']
  const sources = values.map((value, rank) => ({
    value,
    origin: { by: 'preset' as const, name: 'p', revision: '1' },
    rank,
  }))
  mergeSources(structure, sources, rootPath, emptyMerge({ spend: (steps) => (spent += steps) }))
  expect([read.length, new Set(read), spent]).toEqual([3, new Set(values), 23])
})

describe('where the user wrote a value of another form', () => {
  type Given = { readonly [key: string]: unknown }
  const enforce = (name: string, spec: Given, priority = 0) =>
    gadgetPreset(name, spec, { strength: 'Enforce', priority })
  const parts = [{ name: 'a', weight: 1 }]

  test.each<[string, Given, Given[], Given[], unknown]>([
    ['an enforced object replaces it', { options: null }, [{ options: { a: 'x' } }], [], { options: { a: 'x' } }],
    ['an enforced empty object replaces it', { options: null }, [{ options: {} }], [], { options: {} }],
    ['an enforced set replaces it', { words: null }, [{ words: ['x'] }], [], { words: ['x'] }],
    ['an enforced item replaces it', { parts: null }, [{ parts }], [], { parts }],
    ['it is replaced whatever it is', { parts: { name: 'a' } }, [{ parts }], [], { parts }],
    [
      'also in an item',
      { parts: [{ name: 'a', options: null }] },
      [{ parts: [{ name: '*', options: { k: 'v' } }] }],
      [],
      { parts: [{ name: 'a', options: { k: 'v' } }] },
    ],
    [
      'with a branch of a union',
      { source: null },
      [{ source: { git: { url: 'u' } } }],
      [],
      {
        source: { git: { url: 'u' } },
      },
    ],
    [
      'defaults fill what was replaced',
      { options: null },
      [{ options: { a: 'x' } }],
      [{ options: { a: 'y', b: 'y' } }],
      { options: { a: 'x', b: 'y' } },
    ],
    [
      'defaults alone leave it',
      { options: null, parts: 'text' },
      [],
      [{ options: { a: 'x' }, parts }],
      {
        options: null,
        parts: 'text',
      },
    ],
    [
      'what changes only items of a list leaves it',
      { parts: null },
      [{ parts: [{ name: '*', weight: 1 }] }],
      [{ parts }],
      { parts: null },
    ],
    ['an enforced empty list leaves it', { parts: null }, [{ parts: [] }], [], { parts: null }],
  ])('%s', (_, spec, enforced, defaults, expected) => {
    const presets = [
      ...enforced.map((one, index) => enforce(`e${index}`, one)),
      ...defaults.map((one, index) => gadgetPreset(`d${index}`, one)),
    ]
    const result = injectGadget(gadget(spec), presets)
    expect(specOf(result)).toEqual(expected)
    expect(specOf(injectGadget(result.object, presets))).toEqual(expected)
  })

  test('it is reported as overridden, as a whole', () => {
    const presets = [enforce('strong', { options: { a: 'x' } }, 1), enforce('weak', { options: { a: 'y', b: 'y' } })]
    const { origins, overridden, warnings } = injectGadget(gadget({ options: null }), presets)
    const by = (name: string) => presets.find((one) => one.name === name)?.origin
    expect([...origins]).toEqual([
      ['spec.options.a', by('strong')],
      ['spec.options.b', by('weak')],
    ])
    expect([...overridden]).toEqual([
      ['spec.options.a', [{ origin: by('weak'), value: 'y' }]],
      ['spec.options', [{ origin: { by: 'user' }, value: null }]],
    ])
    expect(warnings).toEqual(['a preset changed spec.options, which was null'])
  })
})

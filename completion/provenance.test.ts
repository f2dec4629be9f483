import { describe, expect, test } from 'vitest'
import type { Origin } from '../api/cause.ts'
import type { Provenance } from '../presets/origins.ts'
import { vmWith } from '../test/presets/make.ts'
import { originOf } from './origins.ts'
import { decodeProvenance, encodeProvenance, maxProvenanceBytes } from './provenance.ts'

const small: Origin = { by: 'preset', namespace: 'team', name: 'small', revision: '0123456789abcdef' }
const site: Origin = { by: 'preset', name: 'site', revision: 'fedcba9876543210' }
const bus: Origin = { by: 'default', rule: 'disk-bus' }
const user: Origin = { by: 'user' }

const nothing: Provenance = { origins: new Map(), overridden: new Map(), removed: new Map(), skipped: [] }

const vm = vmWith(
  {
    type: 'kvm',
    cpu: { mode: 'host-model', check: 'partial' },
    devices: { disks: [{ target: { dev: 'vda', bus: 'virtio' } }, { target: { dev: 'vdb', bus: 'virtio' } }] },
  },
  { labels: { app: 'web', '1': 'x' }, annotations: { 'example.org/note': 'n' } },
)

const provenance: Provenance = {
  origins: new Map<string, Origin>([
    ['metadata.labels.1', small],
    ['metadata.annotations[example.org/note]', small],
    ['spec.domain.cpu.mode', small],
    ['spec.domain.cpu.check', small],
    ['spec.domain.devices.disks[0].target.bus', bus],
    ['spec.domain.devices.disks[1].target.dev', site],
    ['spec.domain.devices.disks[1].target.bus', site],
  ]),
  overridden: new Map([
    [
      'spec.domain.devices.disks[1].target.bus',
      [
        { origin: user, value: 'sata' },
        { origin: small, value: 'ide' },
      ],
    ],
  ]),
  removed: new Map([['spec.domain.devices.tpms[0]', site]]),
  skipped: [{ origin: small, path: 'spec.domain.devices.disks[target.dev=vdz]', reason: 'no-such-item' }],
}

describe('the annotation', () => {
  const { text, left } = encodeProvenance(provenance, vm)

  test('ends where all leaves below have one origin', () => {
    expect(left).toBe(0)
    expect(JSON.parse(text)).toEqual({
      v: 1,
      by: [['team', 'small', '0123456789abcdef'], '=disk-bus', ['', 'site', 'fedcba9876543210'], 'user'],
      at: {
        metadata: { labels: { '.1': 0 }, annotations: 0 },
        spec: { domain: { cpu: 0, devices: { disks: { 0: { target: { bus: 1 } }, 1: 2 } } } },
      },
      over: { spec: { domain: { devices: { disks: { 1: { target: { bus: [[3, 'sata'], 0] } } } } } } },
      gone: { spec: { domain: { devices: { tpms: { 0: 2 } } } } },
      skip: [[0, 'spec.domain.devices.disks[target.dev=vdz]', 'no-such-item']],
    })
  })

  const decoded = decodeProvenance(text)

  test.each([
    ['metadata.labels.app', user],
    ['metadata.labels.1', small],
    ['metadata.annotations[example.org/note]', small],
    ['spec.domain.type', user],
    ['spec.domain.cpu.mode', small],
    ['spec.domain.devices.disks[0].target.dev', user],
    ['spec.domain.devices.disks[0].target.bus', bus],
    ['spec.domain.devices.disks[1].target.bus', site],
  ])('records the origin of %s', (path, origin) => {
    expect(originOf(decoded?.origins ?? new Map(), path)).toEqual(origin)
  })

  test('records overridden values with those of the user, removed values and skipped ones', () => {
    expect(decoded?.overridden).toEqual(
      new Map([
        [
          'spec.domain.devices.disks[1].target.bus',
          [
            { origin: user, value: 'sata' },
            { origin: small, value: undefined },
          ],
        ],
      ]),
    )
    expect(decoded?.removed).toEqual(provenance.removed)
    expect(decoded?.skipped).toEqual(provenance.skipped)
  })
})

test('does not record long values of the user that a preset overrode', () => {
  const lost = (value: unknown) => new Map([['spec.domain.title', [{ origin: user, value }]]])
  const recorded = (value: unknown) => {
    const { text, left } = encodeProvenance({ ...nothing, overridden: lost(value) }, vm)
    return [decodeProvenance(text)?.overridden.get('spec.domain.title')?.[0]?.value, left]
  }
  expect([recorded('t'.repeat(126)), recorded('t'.repeat(127)), recorded({ file: '/x' }), recorded(false)]).toEqual([
    ['t'.repeat(126), 0],
    [undefined, 0],
    [{ file: '/x' }, 0],
    [false, 0],
  ])
})

test('omits values first if space is short', () => {
  const paths = Array.from({ length: 40 }, (_, index) => `spec.domain.devices.disks[${index}].serial`)
  const overridden = new Map(paths.map((path) => [path, [{ origin: user, value: 'a serial number' }]]))
  const given = { ...provenance, overridden }
  const whole = encodeProvenance(given, vm)
  const { text, left } = encodeProvenance(given, vm, whole.text.length - 1)
  const decoded = decodeProvenance(text)
  expect([left, decoded?.overridden.size, text.includes('a serial number')]).toEqual([0, 40, false])
  expect(decoded?.skipped).toEqual(provenance.skipped)
})

test('records the items that a list lost', () => {
  const shortened = new Map([
    ['spec.volumes', { length: 2, missing: new Map([[0, '0011223344556677']]) }],
    ['spec.domain.devices.disks', { length: 3, missing: new Map([[0, '8899aabbccddeeff']]) }],
    ['spec.domain.devices.disks[1].source.hosts', { length: 1, missing: new Map([[0, '0123456789abcdef']]) }],
  ])
  const { text } = encodeProvenance({ ...nothing, shortened }, vm)
  expect(JSON.parse(text)).toEqual({
    v: 1,
    by: [],
    less: [
      ['spec.volumes', 2, [0, '0011223344556677']],
      ['spec.domain.devices.disks', 3, [0, '8899aabbccddeeff']],
      ['spec.domain.devices.disks[1].source.hosts', 1, [0, '0123456789abcdef']],
    ],
  })
  expect(decodeProvenance(text)?.shortened).toEqual(shortened)
  const cut = encodeProvenance({ ...nothing, shortened }, vm, text.length - 1)
  expect([decodeProvenance(cut.text)?.shortened, cut.left]).toEqual([new Map(), 3])
})

test('items that a list lost are omitted before values that were overridden or removed', () => {
  const removed = new Map([['spec.domain.title', user]])
  const shortened = new Map([['spec.volumes', { length: 2, missing: new Map([[0, '0011223344556677']]) }]])
  const whole = encodeProvenance({ ...nothing, removed, shortened }, vm)
  const { text, left } = encodeProvenance({ ...nothing, removed, shortened }, vm, whole.text.length - 1)
  const decoded = decodeProvenance(text)
  expect([decoded?.removed, decoded?.shortened, left]).toEqual([removed, new Map(), 1])
})

test.each([
  [256, 1],
  [257, 0],
])('of lists whose paths have %i characters, a claim names %i', (length, size) => {
  const text = JSON.stringify({ v: 1, by: [], less: [['k'.repeat(length), 1, [0, '0011223344556677']]] })
  expect(decodeProvenance(text)?.shortened.size).toBe(size)
})

test.each(['', '{', '[]', '"x"', '{"v":2,"by":[]}', '{"v":1}', '{"v":1,"by":"x"}'])(
  '%s is not a valid annotation',
  (text) => {
    expect(decodeProvenance(text)).toBeUndefined()
  },
)

test.each([
  ['longer than the limit', `{"v":1,"by":["${'x'.repeat(32 * 1024)}"]}`, undefined],
  ['nested deeper than any VM', `{"v":1,"by":["=r"],"at":${'{"a":'.repeat(5000)}0${'}'.repeat(5000)}}`, nothing],
])('one that is %s claims nothing', (_, text, decoded) => {
  expect(decodeProvenance(text)).toEqual(decoded && { ...decoded, enforced: new Map(), ...noPaths, left: 0 })
})

/** What is empty in most. */
const noPaths = { shortened: new Map(), filled: new Set() }
const listed = { ...nothing, shortened: new Map([['spec.a', { length: 1, missing: new Map() }]]) }

test.each([
  ['repeats a long key in each path', 'x'.repeat(12_000), nothing],
  ['has a key that is many in the text of a path', '[a]'.repeat(2000), listed],
  ['has a key that is many with dots', `]${'.a'.repeat(2000)}`, listed],
  ['has a key with brackets', 'a[b]', { ...listed, origins: expect.objectContaining({ size: 200 }) }],
])('a claim that %s expands to little or nothing', (_, key, expected) => {
  const below = Object.fromEntries(Array.from({ length: 200 }, (_item, index) => [`k${index}`, 0]))
  const text = JSON.stringify({ v: 1, by: ['=r'], at: { spec: { [key]: below } }, less: [['spec.a', 1]] })
  expect(decodeProvenance(text)).toEqual({ enforced: new Map(), ...noPaths, left: 0, ...expected })
})

test('invalid parts of an annotation are ignored', () => {
  const text =
    '{"v":1,"by":[7,["a"],"=r"],"at":{"spec":{"a":0,"b":1,"c":2,"d":9,"__proto__":2}},"skip":[1,["x"]],"less":[7,{},[],["a"],["b","x"],[7,7],["e",2,7,[1],["0","0123456789abcdef"],[0,"d"],[-1,"0123456789abcdef"],[0.5,"0123456789abcdef"],[1e400,"0123456789abcdef"],[1,"0123456789abcdef"]],["f",1e400],["g",-1]],"full":[7,{},"spec.a"]}'
  expect(decodeProvenance(text)).toEqual({
    ...nothing,
    enforced: new Map(),
    shortened: new Map([['e', { length: 2, missing: new Map([[1, '0123456789abcdef']]) }]]),
    filled: new Set(['spec.a']),
    origins: new Map([
      ['spec.c', { by: 'default', rule: 'r' }],
      ['spec.__proto__', { by: 'default', rule: 'r' }],
    ]),
    left: 0,
  })
})

describe('an extremely large VM', () => {
  const disks = Array.from({ length: 3000 }, (_, index) => ({
    target: { dev: `vd${index}`, bus: 'virtio' },
    serial: 's',
  }))
  const large = vmWith({ devices: { disks } })
  const origins = new Map<string, Origin>(
    disks.flatMap((_, index) => [
      [`spec.domain.devices.disks[${index}].target.bus`, bus] as const,
      [`spec.domain.devices.disks[${index}].serial`, small] as const,
    ]),
  )
  const { text, left } = encodeProvenance({ ...provenance, origins }, large)

  test('stays within the limit and records how many entries are omitted', () => {
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(maxProvenanceBytes)
    const decoded = decodeProvenance(text)
    expect(decoded?.left).toBe(left)
    expect(left).toBeGreaterThan(0)
    expect(decoded?.origins.size).toBe(6000 + 3 - left)
  })

  test('is cut at the same leaf in any order', () => {
    const reversed = new Map([...origins].toReversed())
    expect(encodeProvenance({ ...provenance, origins: reversed }, large)).toEqual({ text, left })
  })
})

describe('a VM whose paths are much longer than its annotation', () => {
  const [levels, hostCount] = [30, 160]
  const below = (level: number): object =>
    level === 0
      ? { source: { hosts: Array.from({ length: hostCount }, () => ({ name: 'h', port: 1 })) } }
      : { backingStore: below(level - 1) }
  const disks = Array.from({ length: 10 }, () => below(levels))
  const deep = vmWith({ devices: { disks } })
  const paths = disks.flatMap((_disk, index) =>
    Array.from({ length: hostCount }, (_host, host) => {
      const chain = '.backingStore'.repeat(levels)
      return `spec.domain.devices.disks[${index}]${chain}.source.hosts[${host}].port`
    }),
  )
  const origins = new Map<string, Origin>(paths.map((path) => [path, bus]))
  const enforced = new Map([['metadata.labels.tier', small]])
  const encoded = (maxBytes?: number) => encodeProvenance({ ...provenance, origins, enforced }, deep, maxBytes)

  test('is encoded as far as it is decoded again', () => {
    const { text, left } = encoded()
    const decoded = decodeProvenance(text)
    expect(left).toBeGreaterThan(0)
    expect([decoded?.left, decoded?.enforced]).toEqual([left, enforced])
    expect(decoded?.origins.size).toBeGreaterThan(500)
  })

  test('keeps what presets enforce, whatever else it names', () => {
    const { text } = encoded(1024 * 1024 * 1024)
    const decoded = decodeProvenance(text)
    expect([text.length < maxProvenanceBytes, decoded?.origins.size, decoded?.enforced]).toEqual([true, 0, enforced])
  })
})

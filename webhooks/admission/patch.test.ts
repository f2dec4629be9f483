import fc from 'fast-check'
import jsonPatch from 'fast-json-patch'
import { describe, expect, test } from 'vitest'
import { patchBetween } from './patch.ts'
import type { Operation } from './patch.ts'

/** A strict applier of RFC 6902: parents must exist, and so must the target of `replace` and `remove`. */
function apply(document: unknown, operations: readonly Operation[]): unknown {
  const root = structuredClone(document)
  for (const operation of operations) {
    const tokens = operation.path
      .split('/')
      .slice(1)
      .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
    const last = tokens.pop()
    if (last === undefined) throw new Error('the root is never replaced')
    const parent = tokens.reduce<unknown>((node, token) => member(node, token), root)
    if (Array.isArray(parent)) changeList(parent, last, operation)
    else if (typeof parent === 'object' && parent !== null) changeObject(parent, last, operation)
    else throw new Error(`${operation.path}: no parent`)
  }
  return root
}

function member(node: unknown, token: string): unknown {
  if (typeof node !== 'object' || node === null || !Object.hasOwn(node, token)) throw new Error(`no ${token}`)
  return Object.getOwnPropertyDescriptor(node, token)?.value
}

function changeObject(parent: object, key: string, operation: Operation): void {
  if (operation.op !== 'add' && !Object.hasOwn(parent, key)) throw new Error(`${operation.path}: nothing there`)
  if (operation.op === 'remove') Reflect.deleteProperty(parent, key)
  else {
    const value = structuredClone(operation.value)
    Object.defineProperty(parent, key, { value, writable: true, enumerable: true, configurable: true })
  }
}

function changeList(parent: unknown[], key: string, operation: Operation): void {
  const index = key === '-' ? parent.length : Number(key)
  const limit = operation.op === 'add' ? parent.length : parent.length - 1
  if (!/^(-|0|[1-9]\d*)$/.test(key) || index > limit) throw new Error(`${operation.path}: no such place`)
  if (operation.op === 'remove') parent.splice(index, 1)
  else parent.splice(index, operation.op === 'add' ? 0 : 1, structuredClone(operation.value))
}

const filled = (value: number) => Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`key${index}`, value]))

describe('a patch', () => {
  test.each<[string, Record<string, unknown>, Record<string, unknown>, Operation[]]>([
    ['without changes is empty', { a: [1, { b: null }] }, { a: [1, { b: null }] }, []],
    [
      'adds a missing subtree in one piece',
      { spec: {} },
      { spec: { domain: { cpu: { topology: { cores: 2 } } } } },
      [{ op: 'add', path: '/spec/domain', value: { cpu: { topology: { cores: 2 } } } }],
    ],
    [
      'appends to lists, and fills items',
      { disks: [{ target: {} }] },
      { disks: [{ target: { bus: 'ide' } }, { a: 1 }, 'b'] },
      [
        { op: 'add', path: '/disks/0/target/bus', value: 'ide' },
        { op: 'add', path: '/disks/-', value: { a: 1 } },
        { op: 'add', path: '/disks/-', value: 'b' },
      ],
    ],
    ['replaces a list that lost items', { a: [1, 2] }, { a: [2] }, [{ op: 'replace', path: '/a', value: [2] }]],
    ['replaces a list by an object', { a: [] }, { a: {} }, [{ op: 'replace', path: '/a', value: {} }]],
    [
      'escapes keys',
      { m: {} },
      { m: { 'virtset.io/x': '', '~': 1, '': 2 } },
      [
        { op: 'add', path: '/m/virtset.io~1x', value: '' },
        { op: 'add', path: '/m/~0', value: 1 },
        { op: 'add', path: '/m/', value: 2 },
      ],
    ],
    ['treats undefined as absent', { a: undefined, b: 1 }, { b: 1, c: undefined }, []],
    [
      'replaces an object by null, a text or a list',
      { a: {}, b: {}, c: {} },
      { a: null, b: 'x', c: [1] },
      [
        { op: 'replace', path: '/a', value: null },
        { op: 'replace', path: '/b', value: 'x' },
        { op: 'replace', path: '/c', value: [1] },
      ],
    ],
    [
      'replaces null and a text by an object',
      { a: null, b: 'x' },
      { a: { c: 1 }, b: { c: 1 } },
      [
        { op: 'replace', path: '/a', value: { c: 1 } },
        { op: 'replace', path: '/b', value: { c: 1 } },
      ],
    ],
    ['adds a key that objects inherit', {}, { toString: 'x' }, [{ op: 'add', path: '/toString', value: 'x' }]],
    [
      'has up to eight operations below a value',
      { a: { list: [0, 0, 0, 0, 0, 0, 0, 0] } },
      { a: { list: [1, 1, 1, 1, 1, 1, 1, 1] } },
      Array.from({ length: 8 }, (_, index) => ({ op: 'replace', path: `/a/list/${index}`, value: 1 })),
    ],
    [
      'becomes a single operation instead of many',
      { a: { list: [0, 0, 0, 0, 0, 0, 0, 0, 0] } },
      { a: { list: [1, 1, 1, 1, 1, 1, 1, 1, 1] } },
      [{ op: 'replace', path: '/a/list', value: [1, 1, 1, 1, 1, 1, 1, 1, 1] }],
    ],
    [
      'has any number of operations around an integer of 64 bits, which is not written',
      { a: { long: 2 ** 60, ...filled(0) } },
      { a: { long: 2 ** 60, ...filled(1) } },
      Object.keys(filled(1)).map((key) => ({ op: 'replace', path: `/a/${key}`, value: 1 })),
    ],
    [
      'becomes a single operation beside an integer of 64 bits',
      { long: 2 ** 60, a: filled(0) },
      { long: 2 ** 60, a: filled(1) },
      [{ op: 'replace', path: '/a', value: filled(1) }],
    ],
  ])('%s', (_, before, after, expected) => expect(patchBetween(before, after)).toEqual(expected))

  const key = fc.constantFrom('a', 'b', '', '~', '/', 'a/b~', '0', '-', 'ü', '__proto__', 'constructor')
  const { json } = fc.letrec((tie) => ({
    json: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom(null, true, false, 0, 1, '', 'x'),
      fc.array(tie('json'), { maxLength: 4 }),
      fc.dictionary(key, tie('json'), { maxKeys: 5 }).map((value): unknown => JSON.parse(JSON.stringify(value))),
    ),
  }))
  const object = fc
    .dictionary(key, json, { maxKeys: 5 })
    .map((value): Record<string, unknown> => JSON.parse(JSON.stringify(value)))

  test('turns one value into the other with a strict applier', () => {
    fc.assert(
      fc.property(object, object, (before, after) => {
        const frozen = JSON.stringify(before)
        expect(JSON.stringify(sorted(apply(before, patchBetween(before, after))))).toBe(JSON.stringify(sorted(after)))
        expect(JSON.stringify(before)).toBe(frozen)
      }),
      { numRuns: 200 },
    )
  })

  test('does the same with fast-json-patch', () => {
    const before = { spec: { list: [1, { a: 1 }], gone: 1 } }
    const after = { spec: { list: [1, { a: 2, 'b/c': 3 }, 4] }, more: {} }
    const operations = structuredClone(patchBetween(before, after))
    expect(jsonPatch.applyPatch(structuredClone(before), operations, true).newDocument).toEqual(after)
  })
})

/** With keys in order, as entries, so that no key is special. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return {
    entries: Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, sorted(item)]),
  }
}

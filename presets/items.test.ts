import { describe, expect, test } from 'vitest'
import { attribute, children, element } from '../api/domain/description.ts'
import { domain } from '../api/domain/domain.ts'
import { integer, oneOf } from '../api/domain/scalar.ts'
import { line } from '../api/domain/text.ts'
import { domainOf, injectSmall, preset, vmWith } from '../test/presets/make.ts'
import { comparison } from './comparison.ts'
import { groupItems, keysOfItem, withoutStars } from './items.ts'
import { byUser, rankOf, type Source, userRank } from './source.ts'
import { structureAt, templateStructure, type ListStructure } from './structure.ts'

const cells = structureAt(
  templateStructure(
    element('A domain.', {
      cells: children(
        'cell',
        element('A cell.', {
          row: attribute(integer(), 'Row.'),
          column: attribute(line(), 'Column.'),
          name: attribute(line(), 'Name.'),
          type: attribute(oneOf('a', 'b'), 'Type.'),
        }),
        'Cells.',
        { key: [['name'], ['row', 'column']] },
      ),
    }),
  ),
  ['spec', 'domain', 'cells'],
) as ListStructure

const users = (...value: unknown[]): Source => ({ rank: userRank, origin: byUser, value })
const from = (name: string, priority: number, ...value: unknown[]): Source => ({
  rank: rankOf('namespace Default', priority),
  origin: { by: 'preset', namespace: 'team', name, revision: '1' },
  value,
})
const enforcedFrom = (name: string, ...value: unknown[]): Source => ({
  ...from(name, 0, ...value),
  rank: rankOf('namespace Enforce', 0),
})
const grouped = (...sources: Source[]) =>
  groupItems(cells, sources).groups.map((group) => group.map(({ value }) => value))

describe('items that are the same', () => {
  test.each<[string, Source[], unknown[][]]>([
    [
      'by the first key that both have',
      [users({ name: 'x', row: 1, column: 'a' }), from('p', 0, { name: 'x', row: 2, column: 'b' })],
      [
        [
          { name: 'x', row: 1, column: 'a' },
          { name: 'x', row: 2, column: 'b' },
        ],
      ],
    ],
    [
      'else by the next, of which they need all parts',
      [
        users({ row: 1, column: 'a' }, { row: 1 }),
        from('p', 0, { row: '1', column: 'a', name: 'x' }, { row: 1, type: 'a' }),
      ],
      [
        [
          { row: 1, column: 'a' },
          { row: '1', column: 'a', name: 'x' },
        ],
        [{ row: 1 }],
        [{ row: 1, type: 'a' }],
      ],
    ],
    [
      'not if the first key differs',
      [users({ name: 'x', row: 1, column: 'a' }), from('p', 0, { name: 'y', row: 1, column: 'a' })],
      [[{ name: 'x', row: 1, column: 'a' }], [{ name: 'y', row: 1, column: 'a' }]],
    ],
    [
      'the item with the same first key before that with the same second',
      [users({ row: 1, column: 'a' }, { name: 'x' }), from('p', 0, { name: 'x', row: 1, column: 'a' })],
      [[{ row: 1, column: 'a' }], [{ name: 'x' }, { name: 'x', row: 1, column: 'a' }]],
    ],
    [
      'wherever it is',
      [users({ name: 'x' }, { row: 1, column: 'a' }), from('p', 0, { name: 'x', row: 1, column: 'a' })],
      [[{ name: 'x' }, { name: 'x', row: 1, column: 'a' }], [{ row: 1, column: 'a' }]],
    ],
    [
      'the first of several',
      [users({ name: 'x', row: 1, column: 'a' }, { name: 'x' }, { name: 'x' }), from('p', 0, { name: 'x' })],
      [[{ name: 'x', row: 1, column: 'a' }, { name: 'x' }], [{ name: 'x' }], [{ name: 'x' }]],
    ],
    [
      'the first of several, in the other order',
      [users({ name: 'x' }, { name: 'x', row: 1, column: 'a' }), from('p', 0, { name: 'x' })],
      [[{ name: 'x' }, { name: 'x' }], [{ name: 'x', row: 1, column: 'a' }]],
    ],
    [
      'those of several presets',
      [from('p', 2, { name: 'x' }), from('q', 1, { row: 1, column: 'a' }), from('r', 0, { name: 'y' })],
      [[{ name: 'x' }], [{ row: 1, column: 'a' }], [{ name: 'y' }]],
    ],
    [
      'also if only a third connects them',
      [
        from('p', 5, { name: 'x' }),
        from('q', 4, { row: 1, column: 'a' }),
        from('r', 3, { name: 'x', row: 1, column: 'a' }),
        from('s', 2, { row: 1, column: 'a', type: 'b' }),
        from('t', 1, { name: 'x', type: 'a' }),
      ],
      [
        [
          { name: 'x' },
          { row: 1, column: 'a' },
          { name: 'x', row: 1, column: 'a' },
          { row: 1, column: 'a', type: 'b' },
          { name: 'x', type: 'a' },
        ],
      ],
    ],
    [
      'or a fourth connects two that were connected',
      [
        from('p', 6, { name: 'x' }),
        from('q', 5, { row: 1, column: 'a' }),
        from('r', 4, { name: 'y' }),
        from('s', 3, { name: 'x', row: 2, column: 'b' }),
        from('t', 2, { row: 2, column: 'b' }),
        from('u', 1, { name: 'y', row: 1, column: 'a' }),
      ],
      [
        [{ name: 'x' }, { name: 'x', row: 2, column: 'b' }, { row: 2, column: 'b' }],
        [{ row: 1, column: 'a' }, { name: 'y' }, { name: 'y', row: 1, column: 'a' }],
      ],
    ],
    [
      'the first of those with the same keys',
      [users({ name: 'x' }, { name: 'x' }), from('p', 0, { name: 'x' })],
      [[{ name: 'x' }, { name: 'x' }], [{ name: 'x' }]],
    ],
    [
      'the first of those with other keys',
      [users({ name: 'z' }, { name: 'x', row: 1, column: 'a' }, { name: 'x' }), from('p', 0, { name: 'x' })],
      [[{ name: 'z' }], [{ name: 'x', row: 1, column: 'a' }, { name: 'x' }], [{ name: 'x' }]],
    ],
    [
      'the one with the same first key, behind one with the same second',
      [users({ name: 'z' }, { row: 1, column: 'a' }, { name: 'x' }), from('p', 0, { name: 'x', row: 1, column: 'a' })],
      [[{ name: 'z' }], [{ row: 1, column: 'a' }], [{ name: 'x' }, { name: 'x', row: 1, column: 'a' }]],
    ],
    [
      'also by the second key of one that was connected',
      [
        from('p', 4, { row: 1, column: 'a' }),
        from('q', 3, { name: 'x', row: 2, column: 'b' }),
        from('r', 2, { name: 'x', row: 1, column: 'a' }),
        from('s', 1, { row: 2, column: 'b' }),
      ],
      [
        [
          { row: 1, column: 'a' },
          { name: 'x', row: 2, column: 'b' },
          { name: 'x', row: 1, column: 'a' },
          { row: 2, column: 'b' },
        ],
      ],
    ],
    [
      'and two with one second key, if a third has only that',
      [
        from('p', 3, { name: 'x', row: 1, column: 'a' }),
        from('q', 2, { name: 'y', row: 1, column: 'a' }),
        from('r', 1, { row: 1, column: 'a' }),
      ],
      [
        [
          { name: 'x', row: 1, column: 'a' },
          { name: 'y', row: 1, column: 'a' },
          { row: 1, column: 'a' },
        ],
      ],
    ],
    [
      'without any key, if one has all of the other',
      [users({ type: 'a', row: 1 }), from('p', 0, { type: 'a' }, { type: 'b' })],
      [[{ type: 'a', row: 1 }, { type: 'a' }], [{ type: 'b' }]],
    ],
    [
      'a preset without a list has none',
      [users({ name: 'x' }), { ...from('p', 0), value: { name: 'x' } }],
      [[{ name: 'x' }]],
    ],
  ])('%s', (_, sources, expected) => expect(grouped(...sources)).toEqual(expected))

  test('which takes the size of an item with * in steps for each item that it could match', () => {
    let count = 0
    groupItems(
      cells,
      [users({ name: 'x' }, { name: 'y' }), from('p', 0, { name: '*', type: 'a' })],
      comparison({ spend: (steps) => (count += steps) }),
    )
    expect(count).toBe(2 * 3)
  })
})

describe('an enforced item', () => {
  const enforced = enforcedFrom('p', { name: 'x', row: 1, column: 'a' })

  test('is not a companion of a USB controller, which has the key of that', () => {
    const controllers = structureAt(templateStructure(domain), ['spec', 'domain', 'devices', 'controllers'])
    const own = { type: 'usb', index: 0, model: 'ich9-ehci1' }
    const companion = { type: 'usb', index: 0, model: 'ich9-uhci1', master: { startport: 0 } }
    const enforced = { type: 'usb', index: 0, alias: { name: 'ua-usb' } }
    const groupsOf = (...items: object[]) =>
      groupItems(controllers as ListStructure, [users(...items), enforcedFrom('p', enforced)]).groups.map((group) =>
        group.map(({ value }) => value),
      )
    expect(groupsOf(own, companion)).toEqual([[own, enforced], [companion]])
    expect(groupsOf(companion, own)).toEqual([[companion], [own, enforced]])
    expect(groupsOf(companion)).toEqual([[companion, enforced]])
    // Which has a key of its own besides.
    const named = { ...companion, alias: { name: 'ua-companion' } }
    expect(groupsOf(own, named)).toEqual([[own, enforced], [named]])
    expect(groupsOf(named, own)).toEqual([[named], [own, enforced]])
    expect(groupsOf(own, own)).toEqual([
      [own, enforced],
      [own, enforced],
    ])
  })

  test('is every item of the user that is the same', () => {
    const given = [{ name: 'x' }, { name: 'y' }, { name: 'x', type: 'a' }, { row: 1, column: 'a' }, { name: 'x' }]
    const [item] = enforced.value as unknown[]
    expect(grouped(users(...given), enforced, from('q', 0, { name: 'x', type: 'b' }))).toEqual([
      [{ name: 'x' }, item, { name: 'x', type: 'b' }],
      [{ name: 'y' }],
      [{ name: 'x', type: 'a' }, item],
      [{ row: 1, column: 'a' }, item],
      [{ name: 'x' }, item],
    ])
  })

  test('takes the steps of its size for each of them but one', () => {
    const stepsFor = (count: number) => {
      let spent = 0
      const sources = [users(...Array.from({ length: count }, () => ({ name: 'x' }))), enforced]
      groupItems(cells, sources, comparison({ spend: (steps) => (spent += steps) }))
      return spent
    }
    expect([1, 2, 10_000].map(stepsFor)).toEqual([0, 4, 9_999 * 4])
  })
})

describe('items that join others, from the last to the first', () => {
  const named = (index: number) => ({ name: `${index}` })
  const placed = (row: number) => ({ row, column: 'a' })
  const sourcesOf = (count: number) => {
    const all = Array.from({ length: count }, (_, index) => index)
    const joining = all.toReversed().flatMap((index) => [
      { ...named(index), ...placed(index) },
      { ...named(index), ...placed(index + 1) },
    ])
    const items = [...all.map(named), ...all.map(placed), ...joining, ...all.map(named)]
    return items.map((item, index) => from(`p${index}`, -index, item))
  }

  test('are one item, in the order in which they were joined', () => {
    const first = [named(0), placed(0), { ...named(0), ...placed(0) }]
    const second = [named(1), placed(1), { ...named(1), ...placed(1) }, { ...named(1), ...placed(2) }]
    expect(grouped(...sourcesOf(2))).toEqual([[...first, ...second, { ...named(0), ...placed(1) }, named(0), named(1)]])
  })

  test('in steps that are proportional to their number', () => {
    const stepsOf = (count: number) => {
      let spent = 0
      groupItems(cells, sourcesOf(count), comparison({ spend: (steps) => (spent += steps) }))
      return spent
    }
    expect([100, 200, 400].map(stepsOf)).toEqual([100, 200, 400].map((count) => 7 * count - 2))
  })
})

describe("an item with '*'", () => {
  test.each<[string, Source[], unknown[][]]>([
    [
      'matches every item',
      [users({ name: 'x' }, { row: 1, column: 'a' }), from('p', 0, { name: '*', type: 'a' })],
      [
        [{ name: 'x' }, { type: 'a' }],
        [{ row: 1, column: 'a' }, { type: 'a' }],
      ],
    ],
    [
      'matches the items that have its other key',
      [
        users({ row: 1, column: 'a' }, { row: 2, column: 'a' }, { row: '1', column: 'b' }, { name: 'x' }),
        from('p', 0, { row: 1, column: '*', type: 'a' }),
      ],
      [
        [
          { row: 1, column: 'a' },
          { row: 1, type: 'a' },
        ],
        [{ row: 2, column: 'a' }],
        [
          { row: '1', column: 'b' },
          { row: 1, type: 'a' },
        ],
        [{ name: 'x' }],
      ],
    ],
    [
      'also those of presets',
      [from('p', 1, { row: 1, column: '*', type: 'a' }), from('q', 0, { row: 1, column: 'a' })],
      [
        [
          { row: 1, column: 'a' },
          { row: 1, type: 'a' },
        ],
      ],
    ],
    [
      'is a name like any other in the VM of a user',
      [users({ name: '*' }, { name: 'x' })],
      [[{ name: '*' }], [{ name: 'x' }]],
    ],
  ])('%s', (_, sources, expected) => expect(grouped(...sources)).toEqual(expected))

  test('loses the * and what becomes empty', () => {
    const disks = { kind: 'list', item: cells.item, maxItems: 1, keys: [[['target', 'dev']]] } as const
    expect([
      withoutStars(disks, { target: { dev: '*' }, type: 'a' }),
      withoutStars(disks, { target: { dev: '*', bus: 'b' } }),
      withoutStars(disks, { target: { dev: 'vda' } }),
    ]).toEqual([{ type: 'a' }, { target: { bus: 'b' } }, { target: { dev: 'vda' } }])
  })
})

test('the keys of an item, under each alternative that it has', () => {
  expect(
    [{ name: 'x', row: 1, column: 'a' }, { row: 1 }, { row: '1', column: 'a' }].map((item) => keysOfItem(cells, item)),
  ).toEqual([['0 "x"', '1 1\0"a"'], [], ['1 1\0"a"']])
})

test('an item that matches none is skipped under its key, or its value where it has no key', () => {
  const disks = (...list: unknown[]) => ({ domain: { devices: { disks: list } } })
  const result = injectSmall(vmWith({}), [
    preset('p', disks({ target: { dev: 'vda' }, serial: 's' }, { driver: { cache: 'none' } })),
  ])
  expect(domainOf(result)).toEqual({})
  expect(result.skipped.map(({ path, reason }) => [path, reason])).toEqual([
    ['spec.domain.devices.disks[target.dev=vda]', 'no-such-item'],
    ['spec.domain.devices.disks[{"driver":{"cache":"none"}}]', 'no-such-item'],
  ])
})

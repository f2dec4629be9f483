import { expect, test } from 'vitest'
import { ageText, applied, rowsOf, selected, type Table } from './table.ts'

const table = (...names: string[]): Table => ({
  rows: names.map((id) => {
    const [namespace = '', name = '', phase = ''] = id.split('/')
    const metadata = { uid: `${namespace}/${name}`, namespace, name, labels: { app: name } }
    return { cells: [name, phase, null], object: { metadata } }
  }),
})
const byUid = (read: Table) => new Map(rowsOf(read).map((row) => [row.uid, row]))

test('a table is read without null cells', () => {
  expect(rowsOf(table('a/web/Running'))).toEqual([
    {
      uid: 'a/web',
      namespace: 'a',
      name: 'web',
      created: '',
      isDeleted: false,
      labels: 'app=web',
      cells: ['web', 'Running', ''],
    },
  ])
})

test('events add, replace and remove rows; bookmarks do nothing', () => {
  const before = byUid(table('a/web/Pending', 'a/old/Running'))
  const after = applied(before, [
    { type: 'MODIFIED', object: table('a/web/Running') },
    { type: 'DELETED', object: table('a/old/Running') },
    { type: 'ADDED', object: table('b/new/Pending') },
    { type: 'BOOKMARK', object: table() },
  ])
  expect([...after.values()].map(({ name, cells }) => [name, cells[1]])).toEqual([
    ['web', 'Running'],
    ['new', 'Pending'],
  ])
  expect(before.get('a/web')?.cells[1]).toBe('Pending')
})

test.each([
  ['everything, in order', { text: '' }, ['a/old', 'a/web', 'b/web']],
  ['every word in any part', { text: 'APP=WEB  running' }, ['a/web']],
  ['one namespace', { namespace: 'b' }, ['b/web']],
  ['the value of a column', { cells: new Map([[1, 'Pending']]) }, ['a/old', 'b/web']],
  ['nothing', { text: 'other' }, []],
])('a filter selects %s', (_, filter, expected) => {
  const rows = rowsOf(table('b/web/Pending', 'a/web/Running', 'a/old/Pending'))
  const found = selected(rows, { text: '', namespace: '', cells: new Map(), ...filter })
  expect(found.map(({ uid }) => uid)).toEqual(expected)
})

test.each([
  [0, '0s'],
  [119, '119s'],
  [120, '2m'],
  [7199, '119m'],
  [7200, '2h'],
  [172_800, '2d'],
])('the age of %d seconds is %s', (seconds, text) => {
  expect(ageText('2026-01-01T00:00:00Z', Date.UTC(2026, 0, 1) + seconds * 1000)).toBe(text)
})

import { expect, test } from 'vitest'
import { bundledCapabilities } from './capabilities.ts'
import { checkedGroups } from './checked-groups.ts'

/** Kinds with these numbers of nodes. */
const groupsOf = (...counts: readonly number[]) =>
  counts.map((count, kind) => ({
    capabilities: bundledCapabilities,
    nodes: Array.from({ length: count }, (_, index) => `${kind}-${index}`),
  }))

const counts = (size: number, ...of: readonly number[]) => {
  const { checked, unchecked } = checkedGroups(groupsOf(...of), size)
  return [checked, unchecked].map((groups) => groups.map(({ nodes }) => nodes.length))
}

test.each<[string, number, number[], number[][]]>([
  ['all, if the VM is small', 150, [1, 2, 3], [[1, 2, 3], []]],
  ['those with the most nodes, if it is large', 100_000, [1, 3, 2], [[3, 2], [1]]],
  ['one at least', 10_000_000, [1, 2], [[2], [1]]],
  ['none, if there is none', 10_000_000, [], [[], []]],
])('the kinds on which a VM is checked: %s', (_, size, given, expected) => {
  expect(counts(size, ...given)).toEqual(expected)
})

test('a VM of usual size is checked on a thousand kinds', () => {
  expect(counts(150, ...Array.from({ length: 1000 }, () => 1))[1]).toEqual([])
})

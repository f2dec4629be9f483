import { describe, expect, test } from 'vitest'
import type { Capabilities } from '../api/capabilities.ts'
import { emulatedCapabilities, olderCapabilities } from '../test/node-profile.ts'
import { bundledCapabilities } from './capabilities.ts'
import { outliersOf, tolerated, type NodeGroup } from './outliers.ts'

test.each([
  [0, 0],
  [2, 0],
  [3, 1],
  [19, 1],
  [20, 2],
  [1000, 100],
])('of %i nodes, %i may be overruled', (nodes, count) => {
  expect(tolerated(nodes)).toBe(count)
})

const group = (prefix: string, count: number, capabilities: Capabilities = bundledCapabilities): NodeGroup => ({
  nodes: Array.from({ length: count }, (_, index) => `${prefix}-${index}`),
  capabilities,
})
const [machine] = bundledCapabilities.machines
const { kvm, qemu } = bundledCapabilities.accelerators
const changed = (over: Partial<Capabilities>): Capabilities => ({ ...bundledCapabilities, ...over })
const nothing = changed({
  machines: machine ? [{ ...machine, name: 'none', maxCpus: 1 }] : [],
  devices: [],
  accelerators: {},
  firmware: [],
  words: {},
})
const withNames = (count: number): Capabilities =>
  changed({
    machines: bundledCapabilities.machines.map(({ isDefault: _default, alias: _alias, ...one }, index) =>
      index < count ? { ...one, alias: `name-${index}` } : one,
    ),
  })
const older = olderCapabilities('10.0')

describe('outliers', () => {
  test.each<[string, NodeGroup[], string[]]>([
    ['none of equal nodes', [group('a', 5)], []],
    ['none of two nodes', [group('a', 1), group('bad', 1, nothing)], []],
    ['a node without any capability', [group('a', 2), group('bad', 1, nothing)], ['bad-0']],
    ['a node with an emulator of its own', [group('a', 2), group('bad', 1, changed({ emulator: '/a' }))], ['bad-0']],
    [
      'a node whose machine types have one CPU',
      [
        group('a', 2),
        group('bad', 1, changed({ machines: bundledCapabilities.machines.map((one) => ({ ...one, maxCpus: 1 })) })),
      ],
      ['bad-0'],
    ],
    [
      'a node where an older machine type is the default',
      [
        group('a', 2),
        group(
          'bad',
          1,
          changed({
            machines: bundledCapabilities.machines.map(({ isDefault: _default, ...one }) =>
              one.name === 'pc-i440fx-3.0' ? { ...one, isDefault: true } : one,
            ),
          }),
        ),
      ],
      ['bad-0'],
    ],
    [
      'not a node without a ninth name of machine types',
      [group('a', 2, withNames(9)), group('b', 1, withNames(8))],
      [],
    ],
    [
      'a node without an eighth name of machine types',
      [group('a', 2, withNames(9)), group('b', 1, withNames(7))],
      ['b-0'],
    ],
    ['a node without firmware', [group('a', 2), group('bad', 1, changed({ firmware: [] }))], ['bad-0']],
    ['not a node with more capabilities', [group('a', 2, older), group('new', 1)], []],
    ['the last node with an old image', [group('new', 9), group('old', 1, older)], ['old-0']],
    ['not half of the nodes, with an old image', [group('new', 5), group('old', 5, older)], []],
    ['not two of ten', [group('new', 8), group('old', 2, older)], []],
    ['two of twenty', [group('new', 18), group('old', 2, older)], ['old-0', 'old-1']],
    [
      'those without the most, if there are too many',
      [group('a', 8), group('old', 1, older), group('bad', 1, nothing)],
      ['bad-0'],
    ],
    ['not a node without KVM', [group('a', 5), group('plain', 1, emulatedCapabilities)], []],
    [
      'not a node with other hardware',
      [
        group('a', 5),
        group(
          'other',
          1,
          changed({
            host: { numaNodes: 1, pageSizes: [4] },
            hyperv: [],
            accelerators: { ...(qemu && { qemu }), ...(kvm && { kvm: { ...kvm, cpuModels: [] } }) },
          }),
        ),
      ],
      [],
    ],
  ])('%s', (_, groups, outliers) => {
    expect(outliersOf(groups).flatMap(({ nodes }) => nodes)).toEqual(outliers)
    expect(outliersOf(groups.toReversed()).flatMap(({ nodes }) => nodes)).toEqual(outliers)
  })
})

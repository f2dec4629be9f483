import { describe, expect, test } from 'vitest'
import type { Capabilities } from '../api/capabilities.ts'
import { capabilitySetName, type NodeCapabilitySet } from '../api/node-capability-set.ts'
import type { PublishedProfile } from '../api/node-profile.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { emulatedCapabilities, nodeProfile, olderCapabilities } from '../test/node-profile.ts'
import { never, planSets, type Observed, type SetAction } from './capability-set-plan.ts'

const minute = 60_000
const older = olderCapabilities('10.0')
const [bundled, emulated] = [capabilitySetName(bundledCapabilities), capabilitySetName(emulatedCapabilities)]

const naming = (node: string, capabilitySetName: string): PublishedProfile => {
  const { spec, ...profile } = nodeProfile(node)
  const { capabilities: _inSet, ...own } = spec
  return { ...profile, spec: { ...own, capabilitySetName } }
}
const set = (capabilities: Capabilities, retired?: boolean): NodeCapabilitySet => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'NodeCapabilitySet',
  metadata: { name: capabilitySetName(capabilities) },
  spec: { capabilities, ...(retired === undefined ? {} : { retired }) },
})
const many = (count: number, capabilities: (index: number) => Capabilities, prefix = 'node') =>
  Array.from({ length: count }, (_, index) => nodeProfile(`${prefix}-${index}`, capabilities(index)))
/** Capabilities that differ from all others. */
const distinct = (index: number): Capabilities => ({ ...bundledCapabilities, version: `10.1.${index}` })

type World = Partial<Observed>

/** The actions of passes over states of the world, each with the minute of the pass. */
function pass(...worlds: readonly (readonly [number, World])[]): readonly (readonly SetAction[])[] {
  let since = never
  return worlds.map(([atMinute, world]) => {
    const planned = planSets({ isSharing: true, profiles: [], sets: [], ...world }, since, atMinute * minute)
    since = planned.since
    return planned.actions
  })
}

const pair: World = { profiles: [nodeProfile('a'), nodeProfile('b')] }
const alone: World = { profiles: [nodeProfile('a'), nodeProfile('b', older)] }
const created: SetAction = { do: 'create', name: bundled, capabilities: bundledCapabilities }
const inUse: World = { profiles: [naming('a', bundled)], sets: [set(bundledCapabilities)] }
const unused: World = { profiles: [nodeProfile('a')], sets: [set(bundledCapabilities)] }
const deleted: SetAction = { do: 'delete', name: bundled }

test.each<[string, readonly (readonly [number, World])[], readonly (readonly SetAction[])[]]>([
  [
    'two nodes have had the same for ten minutes',
    [
      [0, pair],
      [9, pair],
      [10, pair],
    ],
    [[], [], [created]],
  ],
  [
    'a node alone',
    [
      [0, alone],
      [60, alone],
    ],
    [[], []],
  ],
  [
    'two nodes, with an interruption',
    [
      [0, pair],
      [9, alone],
      [10, pair],
      [19, pair],
      [20, pair],
    ],
    [[], [], [], [], [created]],
  ],
  [
    'a node that has it whole, and one that names a set which does not exist',
    [
      [0, { profiles: [nodeProfile('a'), naming('b', bundled)] }],
      [10, { profiles: [nodeProfile('a'), naming('b', bundled)] }],
    ],
    [[], []],
  ],
  [
    'the set exists',
    [
      [0, { ...pair, ...inUse }],
      [10, { ...pair, ...inUse }],
    ],
    [[], []],
  ],
  [
    'sharing is off',
    [
      [0, { ...pair, isSharing: false }],
      [10, { ...pair, isSharing: false }],
    ],
    [[], []],
  ],
  [
    'a set that no profile has named for an hour',
    [
      [0, inUse],
      [1, unused],
      [60, unused],
      [61, unused],
    ],
    [[], [], [], [deleted]],
  ],
  [
    'a set that is named again',
    [
      [0, unused],
      [59, inUse],
      [60, unused],
      [119, unused],
      [120, unused],
    ],
    [[], [], [], [], [deleted]],
  ],
  [
    'sharing was turned off: the set is retired, and deleted when it has not been named for an hour',
    [
      [0, { ...inUse, isSharing: false }],
      [1, { ...inUse, isSharing: false, sets: [set(bundledCapabilities, true)] }],
      [5, { ...unused, isSharing: false, sets: [set(bundledCapabilities, true)] }],
      [65, { ...unused, isSharing: false, sets: [set(bundledCapabilities, true)] }],
    ],
    [[{ do: 'retire', name: bundled, retired: true }], [], [], [deleted]],
  ],
  [
    'sharing was turned on again',
    [
      [0, { ...unused, sets: [set(bundledCapabilities, true)] }],
      [1, { ...unused, sets: [set(bundledCapabilities, false)] }],
    ],
    [[{ do: 'retire', name: bundled, retired: false }], []],
  ],
  [
    'two kinds of nodes: that of more nodes first',
    [0, 10].map((at) => [
      at,
      { profiles: [...many(2, () => bundledCapabilities), ...many(3, () => emulatedCapabilities, 'emulated')] },
    ]),
    [[], [{ do: 'create', name: emulated, capabilities: emulatedCapabilities }, created]],
  ],
])('%s', (_, worlds, expected) => {
  expect(pass(...worlds)).toEqual(expected)
})

describe('compromised nodes', () => {
  const honest = many(3, () => bundledCapabilities, 'honest')

  test('cannot cause more than 32 sets, and those of more nodes come first', () => {
    const kinds = Array.from({ length: 40 }, (_, index) => distinct(index))
    const world = { profiles: [...kinds.flatMap((kind, index) => many(2, () => kind, `pair-${index}`)), ...honest] }
    const [, actions = []] = pass([0, world], [10, world])
    expect([actions.length, actions[0]?.name]).toEqual([32, bundled])
    const full = { ...world, sets: kinds.slice(0, 31).map((kind) => set(kind)) }
    expect(pass([0, full], [10, full])[1]?.map(({ name }) => name)).toEqual([bundled])
    const over = { ...world, sets: kinds.map((kind) => set(kind)) }
    expect(pass([0, over], [10, over])[1]).toEqual([])
  })

  test('are not remembered when they are gone', () => {
    const kinds = Array.from({ length: 200 }, (_, index) => distinct(index))
    const profiles = kinds.flatMap((kind, index) => many(2, () => kind, `pair-${index}`))
    const first = planSets({ isSharing: true, profiles, sets: [] }, never, 0).since
    expect([first.isCommon.size, first.isUnused.size]).toEqual([32, 0])
    const { since } = planSets({ isSharing: true, profiles: honest, sets: [] }, first, minute)
    expect([...since.isCommon]).toEqual([[bundled, minute]])
  })

  test('that change their capabilities together cause no set', () => {
    const worlds = Array.from({ length: 60 }, (_, at) => {
      const kind = distinct(at)
      return [at, { profiles: many(2, () => kind) }] as const
    })
    expect(pass(...worlds).flat()).toEqual([])
  })

  test('cannot store large ones', () => {
    const words = Object.fromEntries(
      Array.from({ length: 250 }, (_, index) => [`subject-${index}`, ['x'.repeat(1020), 'y'.repeat(1020)]]),
    )
    const large = { ...bundledCapabilities, words }
    const world = { profiles: [...many(4, () => large, 'large'), ...honest] }
    expect(pass([0, world], [10, world])[1]).toEqual([created])
  })
})

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { GroupSpec, GroupStatus, VirtualMachineGroup } from '../api/group.ts'
import type { MachineStatus, Phase, VirtualMachine } from '../api/machine.ts'
import type { ObjectMeta } from '../api/object.ts'
import { ownerReference, templateRevisionAnnotation } from '../api/template.ts'
import type { Persisted } from '../runtime/resource.ts'
import { storedMachine } from '../test/stored-machine.ts'
import { planGroup } from './group-plan.ts'
import type { GroupAction, ObservedGroup } from './group-plan.ts'

type Machine = Persisted<VirtualMachine>

const labels = { app: 'web' }
const group = (
  spec: Partial<GroupSpec> = {},
  status?: GroupStatus,
  metadata: ObjectMeta = {},
): Persisted<VirtualMachineGroup> => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineGroup',
  metadata: { namespace: 'default', name: 'web', uid: 'g-1', resourceVersion: '9', generation: 1, ...metadata },
  spec: {
    replicas: 3,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: storedMachine().spec },
    ...spec,
  },
  ...(status === undefined ? {} : { status }),
})

const ours = [ownerReference({ kind: 'VirtualMachineGroup', metadata: { name: 'web', uid: 'g-1' } })]
const others = [ownerReference({ kind: 'VirtualMachineGroup', metadata: { name: 'db', uid: 'g-2' } })]

/** A VM of the group, `name` is also its uid. */
const vm = (name: string, phase?: Phase, metadata: ObjectMeta = {}, status: MachineStatus = {}): Machine =>
  storedMachine({
    metadata: {
      name,
      uid: name,
      labels,
      annotations: { [templateRevisionAnnotation]: 'r1' },
      ownerReferences: ours,
      ...metadata,
    },
    status: { ...(phase === undefined ? {} : { phase }), ...status },
  })
const ending = { deletionTimestamp: '2030-01-02T00:00:00Z' }
const ready = {
  conditions: [{ type: 'Ready', status: 'True', reason: 'Running', message: '', lastTransitionTime: '' }],
} as const

const observed = (
  of: Persisted<VirtualMachineGroup>,
  machines: readonly Machine[],
  more: Partial<ObservedGroup> = {},
): ObservedGroup => ({
  group: of,
  machines,
  deleted: new Set(),
  revision: 'r1',
  refusal: undefined,
  heldBackMs: 0,
  now: '2030-01-02T00:00:00Z',
  ...more,
})

const { replicas: _three, ...spec } = group().spec
const withoutReplicas = { ...group(), spec }

/** What is done, but for the status. */
const told = (actions: readonly GroupAction[]): string[] =>
  actions.flatMap((action) => {
    switch (action.do) {
      case 'write':
        return []
      case 'create':
        return [`create ${action.count}`]
      case 'tell':
        return [`tell ${action.reason}`]
      case 'hold back':
      case 'again':
        return [action.do]
      default:
        return [`${action.do} ${action.machine.metadata.name}`]
    }
  })
const statusOf = (actions: readonly GroupAction[]): GroupStatus | undefined => {
  const found = actions.find((action) => action.do === 'write')
  return found?.do === 'write' ? found.status : undefined
}

describe('a group of three', () => {
  const three = [vm('a', 'Running'), vm('b', 'Running'), vm('c', 'Running')]
  test.each<[string, ObservedGroup, string[]]>([
    ['makes what is missing', observed(group(), [vm('a')]), ['create 2']],
    ['has enough', observed(group(), three), []],
    ['of none deletes all', observed(group({ replicas: 0 }), three), ['delete a', 'delete b', 'delete c']],
    ['without a number is of one', observed(withoutReplicas, []), ['create 1']],
    ['waits for those that end', observed(group(), [vm('a'), vm('b', 'Running', ending)]), ['create 1']],
    ['counts what it deleted a moment ago as ending', observed(group(), three, { deleted: new Set(['a']) }), []],
    [
      'lets finished ones go, after they were counted and told',
      observed(group(), [...three, vm('d', 'Succeeded')]),
      ['tell Succeeded', 'delete d'],
    ],
    [
      'tells a finished one once',
      observed(group({}, { countedUids: ['d'] }), [...three, vm('d', 'Succeeded')]),
      ['delete d'],
    ],
    [
      'tells nothing of those that were deleted, however they end',
      observed(group(), [...three, vm('d', 'Succeeded', ending), vm('e', 'Failed', ending)]),
      [],
    ],
    [
      'replaces a failed one, but not at once',
      observed(group(), [vm('a'), vm('b'), vm('c', 'Failed')]),
      ['tell Failed', 'hold back', 'delete c', 'again'],
    ],
    [
      'replaces it when it was counted',
      observed(group({}, { countedUids: ['c'] }), [vm('a'), vm('b'), vm('c', 'Failed')]),
      ['delete c', 'create 1'],
    ],
    ['waits after a refusal', observed(group(), [], { heldBackMs: 500, refusal: 'no' }), ['again']],
    [
      'takes in an orphan that matches',
      observed(group(), [vm('a'), vm('b'), vm('o', 'Running', { ownerReferences: [] })]),
      ['adopt o'],
    ],
    [
      'leaves an orphan that does not',
      observed(group(), [...three, vm('o', 'Running', { ownerReferences: [], labels: {} })]),
      [],
    ],
    [
      'leaves an orphan that ends, or is finished',
      observed(group(), [
        ...three,
        vm('o', 'Failed', { ownerReferences: [] }),
        vm('p', 'Running', { ownerReferences: [], ...ending }),
      ]),
      [],
    ],
    [
      'leaves what another group has',
      observed(group(), [...three, vm('o', 'Running', { ownerReferences: others })]),
      [],
    ],
    [
      'lets go what no longer matches, and makes another',
      observed(group(), [vm('a'), vm('b'), vm('c', 'Running', { labels: {} })]),
      ['release c', 'create 1'],
    ],
    [
      'that is paused does nothing',
      observed(group({ paused: true, replicas: 0 }), [...three, vm('o', 'Running', { ownerReferences: [] })]),
      [],
    ],
    ['that is being deleted does nothing', observed(group({}, undefined, ending), []), []],
  ])('%s', (_, given, expected) => {
    expect(told(planGroup(given))).toEqual(expected)
  })

  test('deletes those that do not run first, then the youngest', () => {
    const at = (day: number) => ({ creationTimestamp: `2030-01-0${day}T00:00:00Z` })
    const machines = [
      vm('old', 'Running', at(1)),
      vm('young', 'Running', at(3)),
      vm('scheduled', 'Scheduled', at(1)),
      vm('new', undefined, at(2)),
      vm('newer', undefined, at(3)),
    ]
    expect(told(planGroup(observed(group({ replicas: 1 }), machines)))).toEqual([
      'delete newer',
      'delete new',
      'delete scheduled',
      'delete young',
    ])
  })

  test('says how it is in its status, and not twice', () => {
    const machines = [
      vm('a', 'Running', {}, ready),
      vm('b', 'Scheduled'),
      vm('c', 'Running', ending, ready),
      vm('d', 'Failed'),
    ]
    const outdated = planGroup(observed(group(), machines, { revision: 'r2' }))
    const status = statusOf(outdated)
    expect(status).toEqual({
      observedGeneration: 1,
      replicas: 3,
      readyReplicas: 1,
      availableReplicas: 1,
      outdatedReplicas: 2,
      succeeded: 0,
      failed: 1,
      countedUids: ['d'],
      selector: 'app=web',
    })
    expect(statusOf(planGroup(observed(group({}, status), machines, { revision: 'r2' })))).toBeUndefined()
    expect(
      statusOf(planGroup(observed(group({}, status), machines.slice(0, 3), { revision: 'r2' })))?.countedUids,
    ).toBeUndefined()
  })

  test('says why it cannot make VMs, for as long as any are missing', () => {
    const status = statusOf(
      planGroup(observed(group(), [], { refusal: 'spec.domain.memory: Required value', heldBackMs: 1 })),
    )
    expect(status?.conditions).toMatchObject([
      { type: 'ReplicaFailure', status: 'True', message: 'spec.domain.memory: Required value' },
    ])
    const after = planGroup(
      observed(group({ replicas: 0 }, status), [], { refusal: 'spec.domain.memory: Required value' }),
    )
    expect(statusOf(after)?.conditions).toBeUndefined()
  })
})

const anyMachine = fc.record({
  phase: fc.constantFrom<(Phase | undefined)[]>(
    undefined,
    'Pending',
    'Scheduled',
    'Running',
    'Unknown',
    'Succeeded',
    'Failed',
  ),
  isEnding: fc.boolean(),
  isDeleted: fc.boolean(),
  owner: fc.constantFrom('ours', 'nobody', 'others'),
  matches: fc.boolean(),
})

test('whatever there is: never more than asked for, never both at once, and nothing of others is touched', () => {
  fc.assert(
    fc.property(fc.array(anyMachine, { maxLength: 12 }), fc.nat(8), (given, replicas) => {
      const machines = given.map(({ phase, isEnding, owner, matches }, index) =>
        vm(`v${index}`, phase, {
          ...(isEnding ? ending : {}),
          labels: matches ? labels : {},
          ownerReferences: { ours, nobody: [], others }[owner] ?? [],
        }),
      )
      const deleted = new Set(given.flatMap(({ isDeleted }, index) => (isDeleted ? [`v${index}`] : [])))
      const actions = planGroup(observed(group({ replicas }), machines, { deleted }))
      const names = (word: string) =>
        told(actions)
          .filter((line) => line.startsWith(word))
          .map((line) => line.split(' ')[1])
      const isMine = (index: number) => {
        const { owner, phase, isEnding, isDeleted, matches } = given[index]!
        const isOver = isEnding || isDeleted
        if (owner === 'ours') return matches || isOver
        return owner === 'nobody' && matches && !isOver && phase !== 'Succeeded' && phase !== 'Failed'
      }
      const unfinished = given.filter(
        ({ phase }, index) => isMine(index) && phase !== 'Succeeded' && phase !== 'Failed',
      ).length
      const created = Number(names('create')[0] ?? 0)
      expect(unfinished + created <= Math.max(replicas, unfinished)).toBe(true)
      for (const name of [...names('delete'), ...names('release')])
        expect(given[Number(name?.slice(1))]?.owner === 'others').toBe(false)
      const active = names('delete').filter(
        (name) => !['Succeeded', 'Failed'].includes(given[Number(name?.slice(1))]?.phase ?? ''),
      )
      expect(active.length > 0 && created > 0).toBe(false)
    }),
  )
})

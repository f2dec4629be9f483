import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { GroupSpec, GroupStatus, VirtualMachineGroup } from '../api/group.ts'
import type { VirtualMachineStatus, Phase, VirtualMachine } from '../api/virtual-machine.ts'
import type { LabelSelector, ObjectMeta } from '../api/object.ts'
import { ownerReference, templateRevisionAnnotation } from '../api/template.ts'
import type { Persisted } from '../runtime/resource.ts'
import { storedVm } from '../test/stored-vm.ts'
import { slimBudget, type CachedBudget } from './budget.ts'
import { planGroup } from './group-plan.ts'
import type { GroupAction, ObservedGroup } from './group-plan.ts'
import type { CachedGroup } from './slim-owner.ts'

type Vm = Persisted<VirtualMachine>

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
    template: { metadata: { labels }, spec: storedVm().spec },
    ...spec,
  },
  ...(status === undefined ? {} : { status }),
})

const ours = [ownerReference({ kind: 'VirtualMachineGroup', metadata: { name: 'web', uid: 'g-1' } })]
const others = [ownerReference({ kind: 'VirtualMachineGroup', metadata: { name: 'db', uid: 'g-2' } })]

/** A VM of the group, `name` is also its uid. */
const vm = (name: string, phase?: Phase, metadata: ObjectMeta = {}, status: VirtualMachineStatus = {}): Vm =>
  storedVm({
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

const disrupted = {
  conditions: [{ type: 'DisruptionTarget', status: 'True', reason: 'Evicted', message: '', lastTransitionTime: '' }],
} as const
const terminated = {
  reason: 'Shutdown',
  conditions: [{ ...disrupted.conditions[0], reason: 'PodTerminated', message: 'the launcher pod was deleted' }],
} as const
const isLauncher = { key: 'virtset.io/vm-uid', operator: 'Exists' } as const
const ownSelector: LabelSelector = { matchLabels: labels, matchExpressions: [isLauncher] }
const [labelKey = ''] = Object.keys(labels)
const emptySelector: LabelSelector = {
  matchLabels: {},
  matchExpressions: [{ key: labelKey, operator: 'Exists', values: [] }],
}
const storedSelector: LabelSelector = { matchExpressions: [{ key: labelKey, operator: 'Exists' }, isLauncher] }
const budget = (minAvailable: number, selector = ownSelector): Persisted<CachedBudget> =>
  slimBudget({
    metadata: { namespace: 'default', name: 'web', uid: 'b-1', resourceVersion: '1' },
    spec: {
      minAvailable,
      selector,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    },
  })

const observed = (
  of: Persisted<CachedGroup>,
  vms: readonly Vm[],
  more: Partial<ObservedGroup> = {},
): ObservedGroup => ({
  group: of,
  vms,
  deleted: new Set(),
  rejected: new Set(),
  refused: new Set(),
  young: new Set(),
  scaledIn: new Set(),
  budget: undefined,
  revision: 'r1',
  refusal: undefined,
  backOffMs: 0,
  now: '2030-01-02T00:00:00Z',
  ...more,
})

const { replicas: _three, ...spec } = group().spec
const withoutReplicas = { ...group(), spec }

/** The actions other than updates of the status. */
const shown = (actions: readonly GroupAction[]): string[] =>
  actions.flatMap((action) => {
    switch (action.do) {
      case 'updateStatus':
        return []
      case 'createVms':
        return [`create ${action.names?.join(' ') ?? action.count}`]
      case 'deleteVms':
      case 'scaleIn':
        return action.vms.map(({ metadata }) => `delete ${metadata.name}`)
      case 'recordEvent':
        return [`event ${action.reason}`]
      case 'adoptVm':
        return [`adopt ${action.vm.metadata.name}`]
      case 'bindClaims':
        return action.vms.map(({ metadata }) => `bind ${metadata.name}`)
      case 'releaseVm':
        return [`release ${action.vm.metadata.name}`]
      default:
        return [action.do]
    }
  })
const statusOf = (actions: readonly GroupAction[]): GroupStatus | undefined => {
  const found = actions.find((action) => action.do === 'updateStatus')
  return found?.do === 'updateStatus' ? found.status : undefined
}

describe('a group of three', () => {
  const three = [vm('a', 'Running'), vm('b', 'Running'), vm('c', 'Running')]
  test.each<[string, ObservedGroup, string[]]>([
    ['creates the missing VMs', observed(group(), [vm('a')]), ['create 2']],
    ['with enough VMs does nothing', observed(group(), three), []],
    ['whose selector is too large does nothing', observed({ ...group({ selector: {} }), isTooLarge: true }, []), []],
    ['of zero deletes all', observed(group({ replicas: 0 }), three), ['delete a', 'delete b', 'delete c']],
    ['without a number is a group of one', observed(withoutReplicas, []), ['create 1']],
    ['waits for terminating VMs', observed(group(), [vm('a'), vm('b', 'Running', ending)]), ['create 1']],
    [
      'counts a VM that it deleted a moment ago as terminating',
      observed(group(), three, { deleted: new Set(['a']) }),
      [],
    ],
    [
      'deletes finished VMs after it counted and reported them',
      observed(group(), [...three, vm('d', 'Succeeded')]),
      ['event Succeeded', 'delete d'],
    ],
    [
      'reports a finished VM once',
      observed(group({}, { countedUids: ['d'] }), [...three, vm('d', 'Succeeded')]),
      ['delete d'],
    ],
    [
      'does not report deleted VMs, however they end',
      observed(group(), [...three, vm('d', 'Succeeded', ending), vm('e', 'Failed', ending)]),
      [],
    ],
    [
      'replaces a failed VM, but not at once',
      observed(group(), [vm('a'), vm('b'), vm('c', 'Failed')]),
      ['event Failed', 'backOff', 'delete c', 'requeueAfter'],
    ],
    [
      'waits once for all VMs that failed together',
      observed(group(), [vm('a'), vm('b', 'Failed'), vm('c', 'Failed')]),
      ['event Failed', 'event Failed', 'backOff', 'delete b', 'delete c', 'requeueAfter'],
    ],
    [
      'replaces a VM that finished as soon as it had started, but not at once',
      observed(group(), [vm('a'), vm('b'), vm('c', 'Succeeded')], { young: new Set(['c']) }),
      ['event Succeeded', 'backOff', 'delete c', 'requeueAfter'],
    ],
    [
      'nor one that was evicted then',
      observed(group(), [vm('a'), vm('b'), vm('c', 'Failed', {}, disrupted)], { young: new Set(['c']) }),
      ['event Disrupted', 'backOff', 'delete c', 'requeueAfter'],
    ],
    [
      'replaces a VM that ran for a while at once',
      observed(group(), [vm('a'), vm('b'), vm('c', 'Succeeded')]),
      ['event Succeeded', 'delete c', 'create 1'],
    ],
    [
      'replaces a drained VM at once: that is not a failure',
      observed(group(), [vm('a'), vm('b'), vm('c', 'Failed', {}, disrupted)]),
      ['event Disrupted', 'delete c', 'create 1'],
    ],
    [
      'also replaces a drained VM whose guest powered off',
      observed(group(), [vm('a'), vm('b'), vm('c', 'Succeeded', {}, disrupted)]),
      ['event Disrupted', 'delete c', 'create 1'],
    ],
    [
      'also replaces a VM at once of which only the handler knows yet that its pod was terminated',
      observed(group(), [vm('a'), vm('b'), vm('c', 'Succeeded', {}, terminated)]),
      ['event Disrupted', 'delete c', 'create 1'],
    ],
    ['gets the budget that it requests', observed(group({ minAvailable: 2 }), three), ['applyBudget']],
    ['keeps it', observed(group({ minAvailable: 2 }), three, { budget: budget(2) }), []],
    [
      'keeps it as the API server stores it, without the empty labels and values that its selector has',
      observed(group({ minAvailable: 2, selector: emptySelector }), three, { budget: budget(2, storedSelector) }),
      [],
    ],
    ['corrects it', observed(group({ minAvailable: 2 }), three, { budget: budget(1) }), ['applyBudget']],
    ['also while it is paused', observed(group({ minAvailable: 2, paused: true }), three), ['applyBudget']],
    ['loses a budget that it no longer requests', observed(group(), three, { budget: budget(1) }), ['deleteBudget']],
    [
      'replaces it when it was counted',
      observed(group({}, { countedUids: ['c'] }), [vm('a'), vm('b'), vm('c', 'Failed')]),
      ['delete c', 'create 1'],
    ],
    ['waits after a refusal', observed(group(), [], { backOffMs: 500, refusal: 'no' }), ['requeueAfter']],
    [
      'adopts an orphan that matches',
      observed(group(), [vm('a'), vm('b'), vm('o', 'Running', { ownerReferences: [] })]),
      ['adopt o'],
    ],
    [
      'neither replaces an orphan that it could not adopt nor deletes another VM for it',
      observed(group(), [vm('a'), vm('b'), vm('c'), vm('o', undefined, { ownerReferences: [] })], {
        refused: new Set(['o']),
      }),
      [],
    ],
    [
      'counts an orphan that it could not adopt',
      observed(group(), [vm('a'), vm('o', undefined, { ownerReferences: [] })], { refused: new Set(['o']) }),
      ['create 1'],
    ],
    [
      'deletes only its own VMs for a smaller number, not an orphan that it could not adopt',
      observed(group({ replicas: 0 }), [vm('a'), vm('o', undefined, { ownerReferences: [] })], {
        refused: new Set(['o']),
      }),
      ['delete a'],
    ],
    [
      'leaves an orphan that does not match',
      observed(group(), [...three, vm('o', 'Running', { ownerReferences: [], labels: {} })]),
      [],
    ],
    [
      'leaves an orphan that terminates or is finished',
      observed(group(), [
        ...three,
        vm('o', 'Failed', { ownerReferences: [] }),
        vm('p', 'Running', { ownerReferences: [], ...ending }),
      ]),
      [],
    ],
    [
      'leaves the VMs of another group',
      observed(group(), [...three, vm('o', 'Running', { ownerReferences: others })]),
      [],
    ],
    [
      'releases a VM that no longer matches, and creates another',
      observed(group(), [vm('a'), vm('b'), vm('c', 'Running', { labels: {} })]),
      ['release c', 'create 1'],
    ],
    [
      'waits before it replaces one that loses its labels as soon as it is created',
      observed(group(), [vm('a'), vm('b'), vm('c', undefined, { labels: {} })], { young: new Set(['c']) }),
      ['release c', 'backOff', 'requeueAfter'],
    ],
    [
      'deletes a VM that it has never selected, and creates another when that is gone',
      observed(group(), [vm('a'), vm('b'), vm('c', undefined, { labels: {} })], { rejected: new Set(['c']) }),
      ['delete c'],
    ],
    [
      'waits for the deletion of such a VM',
      observed(group(), [vm('a'), vm('b'), vm('c', undefined, { labels: {} })], {
        rejected: new Set(['c']),
        deleted: new Set(['c']),
      }),
      [],
    ],
    [
      'neither counts nor reports how such a VM ends',
      observed(group(), [...three, vm('d', 'Failed', { labels: {} })], { rejected: new Set(['d']) }),
      ['delete d'],
    ],
    [
      'that is paused does nothing',
      observed(group({ paused: true, replicas: 0 }), [...three, vm('o', 'Running', { ownerReferences: [] })]),
      [],
    ],
    ['that is being deleted does nothing', observed(group({}, undefined, ending), []), []],
  ])('%s', (_, given, expected) => {
    expect(shown(planGroup(given))).toEqual(expected)
  })

  const stateful = { ...group(), hasClaims: true } as const
  const numbered = [vm('web-0', 'Running'), vm('web-1', 'Running'), vm('web-2', 'Running')]
  const scaledIn = { ...stateful, spec: { ...stateful.spec, replicas: 1 } }
  test.each<[string, ObservedGroup, string[]]>([
    ['creates the VMs of the missing numbers', observed(stateful, [vm('web-1')]), ['create web-0 web-2']],
    [
      'deletes the highest numbers, and first the VMs without one',
      observed(scaledIn, [vm('web-10', 'Running'), vm('web-9'), vm('web-x', 'Running'), vm('web-0', 'Scheduled')]),
      ['delete web-x', 'delete web-10', 'delete web-9'],
    ],
    [
      'does not replace a failed VM before it is gone, since its number stays',
      observed({ ...stateful, status: { countedUids: ['web-1'] } }, [
        vm('web-0'),
        vm('web-1', 'Failed', ending),
        vm('web-2'),
      ]),
      [],
    ],
    [
      'adopts no orphan',
      observed(stateful, [vm('o', 'Running', { ownerReferences: [] })]),
      ['create web-0 web-1 web-2'],
    ],
    [
      'lets the claims of VMs be deleted that it is scaled in by, until they are gone',
      observed({ ...scaledIn, deletesClaims: true }, [...numbered, vm('web-3', 'Running', ending)], {
        scaledIn: new Set(['web-3']),
      }),
      ['delete web-2', 'delete web-1', 'bind web-2', 'bind web-1', 'bind web-3'],
    ],
    [
      'lets no claims be deleted with VMs that end for another reason, whatever their numbers are',
      observed({ ...scaledIn, deletesClaims: true, status: { countedUids: ['web-3'] } }, [
        vm('web-0', 'Running'),
        vm('web-2', 'Running', ending),
        vm('web-3', 'Failed'),
        vm('web-48267', 'Succeeded', ending),
      ]),
      ['delete web-3'],
    ],
    [
      'lets no claims be deleted with a VM that it may have failed to delete',
      observed({ ...scaledIn, deletesClaims: true }, [vm('web-0', 'Running', ending), vm('web-2', 'Running')], {
        scaledIn: new Set(['web-2']),
      }),
      [],
    ],
    [
      'lets no claims be deleted with a VM whose number it uses again',
      observed({ ...stateful, deletesClaims: true }, [...numbered.slice(0, 2), vm('web-2', 'Running', ending)], {
        scaledIn: new Set(['web-2']),
      }),
      [],
    ],
    [
      'lets no claims be deleted with a VM that is replaced',
      observed({ ...stateful, deletesClaims: true }, [vm('web-0', 'Failed'), ...numbered.slice(1)]),
      ['event Failed', 'backOff', 'delete web-0', 'requeueAfter'],
    ],
  ])('with claims %s', (_, given, expected) => {
    expect(shown(planGroup(given))).toEqual(expected)
  })

  test('creates and deletes a part of many VMs in one pass, so that other groups get their turn', () => {
    const many = Array.from({ length: 100 }, (_, index) => vm(`web-${index}`, 'Running'))
    const whole = group({ replicas: 100 })
    const none = group({ replicas: 0 })
    expect(shown(planGroup(observed(whole, [])))).toEqual(['create 63'])
    expect(shown(planGroup(observed({ ...whole, hasClaims: true }, [])))).toEqual([
      'create web-0 web-1 web-2 web-3 web-4 web-5 web-6',
    ])
    expect(shown(planGroup(observed(none, many)))).toHaveLength(64)
    const bound = shown(planGroup(observed({ ...none, hasClaims: true, deletesClaims: true }, many)))
    const numbers = [99, 98, 97, 96, 95, 94, 93, 92]
    expect(bound).toEqual(['delete', 'bind'].flatMap((action) => numbers.map((number) => `${action} web-${number}`)))
  })

  test('deletes VMs that do not run first, then the youngest', () => {
    const at = (day: number) => ({ creationTimestamp: `2030-01-0${day}T00:00:00Z` })
    const vms = [
      vm('old', 'Running', at(1)),
      vm('young', 'Running', at(3)),
      vm('scheduled', 'Scheduled', at(1)),
      vm('new', undefined, at(2)),
      vm('newer', undefined, at(3)),
    ]
    expect(shown(planGroup(observed(group({ replicas: 1 }), vms)))).toEqual([
      'delete newer',
      'delete new',
      'delete scheduled',
      'delete young',
    ])
  })

  test('reports its state in the status, once', () => {
    const vms = [
      vm('a', 'Running', {}, ready),
      vm('b', 'Scheduled'),
      vm('c', 'Running', ending, ready),
      vm('d', 'Failed'),
    ]
    const outdated = planGroup(observed(group(), vms, { revision: 'r2' }))
    const status = statusOf(outdated)
    expect(status).toEqual({
      observedGeneration: 1,
      replicas: 3,
      readyReplicas: 1,
      availableReplicas: 1,
      outdatedReplicas: 2,
      succeeded: 0,
      failed: 1,
      disrupted: 0,
      countedUids: ['d'],
      selector: 'app=web',
    })
    expect(statusOf(planGroup(observed(group({}, status), vms, { revision: 'r2' })))).toBeUndefined()
    expect(
      statusOf(planGroup(observed(group({}, status), vms.slice(0, 3), { revision: 'r2' })))?.countedUids,
    ).toBeUndefined()
  })

  test('reports why it cannot create VMs, while VMs are missing', () => {
    const status = statusOf(
      planGroup(observed(group(), [], { refusal: 'spec.domain.memory: Required value', backOffMs: 1 })),
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

test('a group adopts a part of many VMs in one pass, and deletes and creates none before it has all', () => {
  const orphans = Array.from({ length: 100 }, (_, index) => vm(`o${index}`, 'Running', { ownerReferences: [] }))
  const finished = vm('f', 'Failed')
  const lines = (replicas: number, count: number) =>
    shown(planGroup(observed(group({ replicas }), [finished, ...orphans.slice(0, count)])))
  const adopted = orphans.slice(0, 64).map(({ metadata }) => `adopt ${metadata.name}`)
  expect(lines(1, 100)).toEqual(adopted)
  expect(lines(200, 100)).toEqual(adopted)
  expect(lines(64, 64)).toEqual([...adopted, 'event Failed', 'backOff', 'delete f'])
})

const anyVm = fc.record({
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
  isRejected: fc.boolean(),
  isRefused: fc.boolean(),
  isYoung: fc.boolean(),
  owner: fc.constantFrom('ours', 'none', 'others'),
  matches: fc.boolean(),
})

test('never more than requested, never creation and deletion at once, and nothing of other owners is touched', () => {
  fc.assert(
    fc.property(fc.array(anyVm, { maxLength: 12 }), fc.nat(8), (given, replicas) => {
      const vms = given.map(({ phase, isEnding, owner, matches }, index) =>
        vm(`v${index}`, phase, {
          ...(isEnding ? ending : {}),
          labels: matches ? labels : {},
          ownerReferences: { ours, none: [], others }[owner] ?? [],
        }),
      )
      const deleted = new Set(given.flatMap(({ isDeleted }, index) => (isDeleted ? [`v${index}`] : [])))
      const chosen = (key: 'isRejected' | 'isRefused' | 'isYoung', owner: string) =>
        new Set(given.flatMap((one, index) => (one[key] && one.owner === owner ? [`v${index}`] : [])))
      const rejected = chosen('isRejected', 'ours')
      const refused = chosen('isRefused', 'none')
      const young = chosen('isYoung', 'ours')
      const actions = planGroup(observed(group({ replicas }), vms, { deleted, rejected, refused, young }))
      const names = (word: string) =>
        shown(actions)
          .filter((line) => line.startsWith(word))
          .map((line) => line.split(' ')[1])
      const isMine = (index: number) => {
        const { owner, phase, isEnding, isDeleted, matches } = given[index]!
        const isOver = isEnding || isDeleted || rejected.has(`v${index}`)
        if (owner === 'ours') return matches || isOver
        return owner === 'none' && matches && !isOver && phase !== 'Succeeded' && phase !== 'Failed'
      }
      const unfinished = given.filter(
        ({ phase }, index) => isMine(index) && phase !== 'Succeeded' && phase !== 'Failed',
      ).length
      const created = Number(names('create')[0] ?? 0)
      expect(unfinished + created <= Math.max(replicas, unfinished)).toBe(true)
      for (const name of [...names('delete'), ...names('release')])
        expect(given[Number(name?.slice(1))]?.owner === 'others').toBe(false)
      expect(names('release').filter((name) => rejected.has(name ?? ''))).toEqual([])
      expect([...names('adopt'), ...names('delete')].filter((name) => refused.has(name ?? ''))).toEqual([])
      expect(created > 0 && names('release').some((name) => young.has(name ?? ''))).toBe(false)
      const active = names('delete').filter(
        (name) =>
          !rejected.has(name ?? '') && !['Succeeded', 'Failed'].includes(given[Number(name?.slice(1))]?.phase ?? ''),
      )
      expect(active.length > 0 && created > 0).toBe(false)
    }),
  )
})

test('a group whose selector is too large reports it, and writes no selector', () => {
  const tooLarge = { ...group({ selector: {}, minAvailable: 1 }, { selector: 'app=web' }), isTooLarge: true as const }
  const own = vm('a', 'Running', { labels: {} })
  const actions = planGroup(observed(tooLarge, [own, vm('b', 'Running', { ownerReferences: [] })]))
  expect(shown(actions)).toEqual([])
  expect(statusOf(actions)).toMatchObject({
    replicas: 1,
    selector: 'app=web',
    conditions: [{ type: 'ReplicaPaused', status: 'True', reason: 'SelectorTooLarge' }],
  })
})

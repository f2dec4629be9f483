import { describe, expect, test } from 'vitest'
import type { ConfigStatus, VirtualMachineConfig } from '../api/config.ts'
import type { VirtualMachineStatus } from '../api/virtual-machine.ts'
import type { ObjectMeta } from '../api/object.ts'
import { ownerReference, templateRevisionAnnotation } from '../api/template.ts'
import type { Persisted } from '../runtime/resource.ts'
import { storedVm } from '../test/stored-vm.ts'
import { planConfig, refusedToRestart } from './config-plan.ts'
import type { ConfigAction } from './config-plan.ts'

const now = '2030-01-02T00:00:00Z'

const config = (status?: ConfigStatus, metadata: ObjectMeta = {}): Persisted<VirtualMachineConfig> => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineConfig',
  metadata: { namespace: 'default', name: 'vm1', uid: 'c-1', resourceVersion: '9', generation: 2, ...metadata },
  spec: { template: { spec: storedVm().spec } },
  ...(status === undefined ? {} : { status }),
})

const vm = (status: VirtualMachineStatus = {}, metadata: ObjectMeta = {}) =>
  storedVm({
    status,
    metadata: {
      uid: 'v-1',
      annotations: { [templateRevisionAnnotation]: 'r1' },
      ownerReferences: [ownerReference({ kind: 'VirtualMachineConfig', metadata: { name: 'vm1', uid: 'c-1' } })],
      ...metadata,
    },
  })

const ending = { deletionTimestamp: '2030-01-02T00:00:00Z' }
const foreign = { ownerReferences: [] }
const request = { uid: 'v-1', requestedAt: '2030-01-01T00:00:00Z' }

const plan = (
  status: ConfigStatus | undefined,
  found: ReturnType<typeof vm> | undefined,
  metadata: ObjectMeta = {},
  revision = 'r1',
) => planConfig({ config: config(status, metadata), vm: found, revision, now })

/** `update PHASE` with the rest of the status, `event REASON`, or the action. */
const shown = (actions: readonly ConfigAction[]): string[] =>
  actions.map((action) => {
    if (action.do === 'recordEvent') return `event ${action.reason}`
    if (action.do !== 'updateStatus') return action.do
    const { phase, instance, outdated, restart } = action.status
    const parts = [instance?.uid, instance?.nodeName, outdated === true ? 'outdated' : undefined, restart && 'restart']
    return ['update', phase, ...parts.filter((part) => part !== undefined)].join(' ')
  })

test('a config has the condition of the agent as long as its VM has it', () => {
  const agent = {
    type: 'AgentConnected',
    status: 'True',
    reason: 'AgentConnected',
    message: '',
    lastTransitionTime: now,
  } as const
  const conditionsAfter = (before: ConfigStatus | undefined, found: ReturnType<typeof vm> | undefined) =>
    plan(before, found).flatMap((action) => (action.do === 'updateStatus' ? [action.status] : []))[0]
  const running = conditionsAfter(undefined, vm({ phase: 'Running', conditions: [agent] }))
  expect(running?.conditions?.map(({ type, status }) => `${type} ${status}`)).toEqual([
    'Ready False',
    'AgentConnected True',
  ])
  const stopped = conditionsAfter(running, undefined)
  expect(stopped?.conditions?.map(({ type }) => type)).toEqual(['Ready'])
})

describe('a config without a restart request', () => {
  test.each<[string, ReturnType<typeof vm> | undefined, string[]]>([
    ['and without a VM is stopped', undefined, ['update Stopped', 'event Stopped']],
    ['whose VM is new is starting', vm(), ['update Starting v-1', 'event Starting']],
    [
      'whose VM has a pod is starting',
      vm({ phase: 'Scheduled', nodeName: 'n1' }),
      ['update Starting v-1 n1', 'event Starting'],
    ],
    ['whose VM runs is running', vm({ phase: 'Running', nodeName: 'n1' }), ['update Running v-1 n1', 'event Running']],
    [
      'whose node does not respond is unknown',
      vm({ phase: 'Unknown', nodeName: 'n1' }),
      ['update Unknown v-1 n1', 'event Unknown'],
    ],
    ['whose VM ends is stopping', vm({ phase: 'Running' }, ending), ['update Stopping v-1', 'event Stopping']],
    ['whose guest powered off is stopped', vm({ phase: 'Succeeded' }), ['update Stopped v-1', 'event Stopped']],
    ['whose VM failed has failed', vm({ phase: 'Failed', reason: 'PodLost' }), ['update Failed v-1', 'event Failed']],
    [
      'ignores a VM of its name with another owner',
      vm({ phase: 'Running' }, foreign),
      ['update Stopped', 'event Stopped'],
    ],
  ])('%s', (_, found, expected) => {
    expect(shown(plan(undefined, found))).toEqual(expected)
  })

  test('whose template changed reports its VM as outdated, and touches nothing', () => {
    expect(shown(plan(undefined, vm({ phase: 'Running' }), {}, 'r2'))).toEqual([
      'update Running v-1 outdated',
      'event Running',
    ])
  })

  test('updates nothing where nothing changed', () => {
    const [first] = plan(undefined, vm({ phase: 'Running' }))
    const status = first?.do === 'updateStatus' ? first.status : {}
    expect(plan(status, vm({ phase: 'Running' }))).toEqual([])
  })

  test('that is being deleted is left to the garbage collector', () => {
    expect(plan(undefined, vm({ phase: 'Running' }), ending)).toEqual([])
  })

  test.each<[string, VirtualMachineStatus, string]>([
    ['powered off', { phase: 'Succeeded', reason: 'Shutdown' }, 'The guest powered off'],
    ['was destroyed', { phase: 'Succeeded', reason: 'Destroyed', message: 'it was ended' }, 'it was ended'],
  ])('records how it was stopped: the guest %s', (_, status, message) => {
    expect(plan(undefined, vm(status))).toContainEqual({
      do: 'recordEvent',
      type: 'Normal',
      reason: 'Stopped',
      message,
    })
  })

  test('copies the Ready condition of the VM', () => {
    const ready = {
      type: 'Ready',
      status: 'Unknown',
      reason: 'NodeSilent',
      message: 'unknown',
      lastTransitionTime: now,
    } as const
    const [first] = plan(undefined, vm({ phase: 'Unknown', conditions: [ready] }))
    expect(first).toMatchObject({
      status: { observedGeneration: 2, conditions: [{ ...ready, observedGeneration: 2 }] },
    })
  })
})

describe('a restart continues from any point', () => {
  test.each<[string, ReturnType<typeof vm> | undefined, string[]]>([
    ['the old instance runs', vm({ phase: 'Running' }), ['deleteVm', 'update Running v-1 restart', 'event Running']],
    ['the old instance ends', vm({ phase: 'Running' }, ending), ['update Stopping v-1 restart', 'event Stopping']],
    [
      'the old instance has ended by itself',
      vm({ phase: 'Succeeded' }),
      ['deleteVm', 'update Stopped v-1 restart', 'event Stopped'],
    ],
    [
      'the old instance has ended and is being removed',
      vm({ phase: 'Succeeded' }, ending),
      ['update Stopping v-1 restart', 'event Stopping'],
    ],
    [
      'the old instance has failed and is being removed',
      vm({ phase: 'Failed' }, ending),
      ['update Stopping v-1 restart', 'event Stopping'],
    ],
    ['the old instance does not exist', undefined, ['createVm']],
    ['another instance exists', vm({}, { uid: 'v-2' }), ['update Starting v-2', 'event Starting', 'event Restarted']],
    [
      'another instance is being deleted',
      vm({}, { uid: 'v-2', ...ending }),
      ['update Stopping v-2', 'event Stopping', 'event Restarted'],
    ],
    ['the name is taken', vm({}, foreign), ['update Stopped', 'event Stopped', 'event NameTaken']],
  ])('%s', (_, found, expected) => {
    expect(shown(plan({ restart: request }, found))).toEqual(expected)
  })

  test.each<[string, ReturnType<typeof vm> | undefined, string[]]>([
    ['the old instance runs', vm({ phase: 'Running' }), ['deleteVm', 'update Running v-1', 'event Running']],
    ['the old instance ends', vm({ phase: 'Running' }, ending), ['update Stopping v-1', 'event Stopping']],
    ['the old instance has ended by itself', vm({ phase: 'Succeeded' }), ['update Stopped v-1', 'event Stopped']],
    ['no VM exists', undefined, ['update Stopped', 'event Stopped']],
    [
      'another was created at this moment',
      vm({}, { uid: 'v-2' }),
      ['deleteVm', 'update Starting v-2', 'event Starting'],
    ],
    ['the name is taken', vm({}, foreign), ['update Stopped', 'event Stopped']],
  ])('that was cancelled, when %s', (_, found, expected) => {
    expect(shown(plan({ restart: { ...request, cancelled: true } }, found))).toEqual(expected)
  })

  test.each<[string, string[], string]>([
    ['of its pod', ['virtset.io/launcher-pod'], 'virtset.io/launcher-pod; virtset.io/launcher-pod is removed when its'],
    ['of others', ['a/1', 'a/2', 'a/3', 'a/4'], 'a/1; a/2; a/3; and 1 more'],
  ])('tells that it waits for the finalizers %s', (_, finalizers, expected) => {
    const [first] = plan({ restart: request }, vm({ phase: 'Succeeded' }, { ...ending, finalizers }))
    expect(first?.do === 'updateStatus' && first.status.conditions).toMatchObject([
      { type: 'Ready', status: 'False', reason: 'Terminating', message: expect.stringContaining(expected) },
    ])
  })

  test('a finished restart is dropped, even if nothing else changed', () => {
    const [first] = plan(undefined, vm({ phase: 'Running' }, { uid: 'v-2' }))
    const status = first?.do === 'updateStatus' ? first.status : {}
    const actions = plan({ ...status, restart: request }, vm({ phase: 'Running' }, { uid: 'v-2' }))
    expect(shown(actions)).toEqual(['update Running v-2', 'event Restarted'])
  })

  test('the requested grace period goes with the deletion', () => {
    const [first] = plan({ restart: { ...request, gracePeriodSeconds: 0 } }, vm({ phase: 'Running' }))
    expect(first).toMatchObject({ do: 'deleteVm', gracePeriodSeconds: 0 })
  })

  test('does not continue while the config is being deleted', () => {
    expect(plan({ restart: request }, undefined, ending)).toEqual([])
  })

  test('that is refused is reported once, and stays requested', () => {
    const observed = { config: config({ restart: request }), vm: undefined, revision: 'r1', now }
    const [first, ...rest] = refusedToRestart(observed, 'no memory')
    expect(shown([first, ...rest].filter((action) => action !== undefined))).toEqual([
      'update Failed restart',
      'event FailedCreate',
    ])
    const status = first?.do === 'updateStatus' ? first.status : {}
    expect(refusedToRestart({ ...observed, config: config(status) }, 'no memory')).toEqual([])
  })
})

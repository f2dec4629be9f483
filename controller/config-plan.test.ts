import { describe, expect, test } from 'vitest'
import type { ConfigStatus, VirtualMachineConfig } from '../api/config.ts'
import type { MachineStatus } from '../api/machine.ts'
import type { ObjectMeta } from '../api/object.ts'
import { ownerReference, templateRevisionAnnotation } from '../api/template.ts'
import type { Persisted } from '../runtime/resource.ts'
import { storedMachine } from '../test/stored-machine.ts'
import { planConfig, refusedToRestart } from './config-plan.ts'
import type { ConfigAction } from './config-plan.ts'

const now = '2030-01-02T00:00:00Z'

const config = (status?: ConfigStatus, metadata: ObjectMeta = {}): Persisted<VirtualMachineConfig> => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineConfig',
  metadata: { namespace: 'default', name: 'vm1', uid: 'c-1', resourceVersion: '9', generation: 2, ...metadata },
  spec: { template: { spec: storedMachine().spec } },
  ...(status === undefined ? {} : { status }),
})

const machine = (status: MachineStatus = {}, metadata: ObjectMeta = {}) =>
  storedMachine({
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
const wish = { uid: 'v-1', requestedAt: '2030-01-01T00:00:00Z' }

const plan = (
  status: ConfigStatus | undefined,
  found: ReturnType<typeof machine> | undefined,
  metadata: ObjectMeta = {},
  revision = 'r1',
) => planConfig({ config: config(status, metadata), machine: found, revision, now })

/** `write PHASE`, with what else is in the status; `tell REASON`; or what is done. */
const told = (actions: readonly ConfigAction[]): string[] =>
  actions.map((action) => {
    if (action.do === 'tell') return `tell ${action.reason}`
    if (action.do !== 'write') return action.do
    const { phase, instance, outdated, restart } = action.status
    const parts = [instance?.uid, instance?.nodeName, outdated === true ? 'outdated' : undefined, restart && 'wish']
    return ['write', phase, ...parts.filter((part) => part !== undefined)].join(' ')
  })

describe('a config without a wish', () => {
  test.each<[string, ReturnType<typeof machine> | undefined, string[]]>([
    ['and without a VM is stopped', undefined, ['write Stopped', 'tell Stopped']],
    ['whose VM is new is starting', machine(), ['write Starting v-1', 'tell Starting']],
    [
      'whose VM has a pod is starting',
      machine({ phase: 'Scheduled', nodeName: 'n1' }),
      ['write Starting v-1 n1', 'tell Starting'],
    ],
    [
      'whose VM runs is running',
      machine({ phase: 'Running', nodeName: 'n1' }),
      ['write Running v-1 n1', 'tell Running'],
    ],
    [
      'whose node is silent was running',
      machine({ phase: 'Unknown', nodeName: 'n1' }),
      ['write Running v-1 n1', 'tell Running'],
    ],
    ['whose VM ends is stopping', machine({ phase: 'Running' }, ending), ['write Stopping v-1', 'tell Stopping']],
    ['whose guest powered off is stopped', machine({ phase: 'Succeeded' }), ['write Stopped v-1', 'tell Stopped']],
    [
      'whose VM failed has failed',
      machine({ phase: 'Failed', reason: 'PodLost' }),
      ['write Failed v-1', 'tell Failed'],
    ],
    [
      'does not mind a VM of its name that is not its own',
      machine({ phase: 'Running' }, foreign),
      ['write Stopped', 'tell Stopped'],
    ],
  ])('%s', (_, found, expected) => {
    expect(told(plan(undefined, found))).toEqual(expected)
  })

  test('whose template is another now says that its VM is outdated, and touches nothing', () => {
    expect(told(plan(undefined, machine({ phase: 'Running' }), {}, 'r2'))).toEqual([
      'write Running v-1 outdated',
      'tell Running',
    ])
  })

  test('writes nothing where nothing changed', () => {
    const [first] = plan(undefined, machine({ phase: 'Running' }))
    const status = first?.do === 'write' ? first.status : {}
    expect(plan(status, machine({ phase: 'Running' }))).toEqual([])
  })

  test('that is being deleted is left to Kubernetes', () => {
    expect(plan(undefined, machine({ phase: 'Running' }), ending)).toEqual([])
  })

  test.each<[string, MachineStatus, string]>([
    ['powered off', { phase: 'Succeeded', reason: 'Shutdown' }, 'The guest has powered off'],
    ['was ended in its stead', { phase: 'Succeeded', reason: 'Destroyed', message: 'it was ended' }, 'it was ended'],
  ])('tells how it was stopped: the guest %s', (_, status, message) => {
    expect(plan(undefined, machine(status))).toContainEqual({ do: 'tell', type: 'Normal', reason: 'Stopped', message })
  })

  test('takes over what the VM says of being ready', () => {
    const ready = {
      type: 'Ready',
      status: 'Unknown',
      reason: 'NodeSilent',
      message: 'nobody knows',
      lastTransitionTime: now,
    } as const
    const [first] = plan(undefined, machine({ phase: 'Unknown', conditions: [ready] }))
    expect(first).toMatchObject({
      status: { observedGeneration: 2, conditions: [{ ...ready, observedGeneration: 2 }] },
    })
  })
})

describe('a restart goes on from wherever it was left', () => {
  test.each<[string, ReturnType<typeof machine> | undefined, string[]]>([
    ['the old instance runs', machine({ phase: 'Running' }), ['delete', 'write Running v-1 wish', 'tell Running']],
    ['the old instance ends', machine({ phase: 'Running' }, ending), ['write Stopping v-1 wish', 'tell Stopping']],
    [
      'the old instance has ended by itself',
      machine({ phase: 'Succeeded' }),
      ['delete', 'write Stopped v-1 wish', 'tell Stopped'],
    ],
    ['the old instance is gone', undefined, ['create']],
    [
      'another instance is there',
      machine({}, { uid: 'v-2' }),
      ['write Starting v-2', 'tell Starting', 'tell Restarted'],
    ],
    [
      'another instance has been asked to stop',
      machine({}, { uid: 'v-2', ...ending }),
      ['write Stopping v-2', 'tell Stopping', 'tell Restarted'],
    ],
    ['the name is taken', machine({}, foreign), ['write Stopped', 'tell Stopped', 'tell NameTaken']],
  ])('%s', (_, found, expected) => {
    expect(told(plan({ restart: wish }, found))).toEqual(expected)
  })

  test.each<[string, ReturnType<typeof machine> | undefined, string[]]>([
    ['the old instance runs', machine({ phase: 'Running' }), ['delete', 'write Running v-1', 'tell Running']],
    ['the old instance ends', machine({ phase: 'Running' }, ending), ['write Stopping v-1', 'tell Stopping']],
    ['the old instance has ended by itself', machine({ phase: 'Succeeded' }), ['write Stopped v-1', 'tell Stopped']],
    ['there is none', undefined, ['write Stopped', 'tell Stopped']],
    ['another was made in this moment', machine({}, { uid: 'v-2' }), ['delete', 'write Starting v-2', 'tell Starting']],
    ['the name is taken', machine({}, foreign), ['write Stopped', 'tell Stopped']],
  ])('that was called off, when %s', (_, found, expected) => {
    expect(told(plan({ restart: { ...wish, cancelled: true } }, found))).toEqual(expected)
  })

  test('a wish that has come true is forgotten, even if nothing else changed', () => {
    const [first] = plan(undefined, machine({ phase: 'Running' }, { uid: 'v-2' }))
    const status = first?.do === 'write' ? first.status : {}
    const actions = plan({ ...status, restart: wish }, machine({ phase: 'Running' }, { uid: 'v-2' }))
    expect(told(actions)).toEqual(['write Running v-2', 'tell Restarted'])
  })

  test('the grace period that was wished for goes with the deletion', () => {
    const [first] = plan({ restart: { ...wish, gracePeriodSeconds: 0 } }, machine({ phase: 'Running' }))
    expect(first).toMatchObject({ do: 'delete', gracePeriodSeconds: 0 })
  })

  test('is not gone on with while the config is being deleted', () => {
    expect(plan({ restart: wish }, undefined, ending)).toEqual([])
  })

  test('that is refused is told once, and the wish is kept', () => {
    const observed = { config: config({ restart: wish }), machine: undefined, revision: 'r1', now }
    const [first, ...rest] = refusedToRestart(observed, 'no memory')
    expect(told([first, ...rest].filter((action) => action !== undefined))).toEqual([
      'write Failed wish',
      'tell FailedCreate',
    ])
    const status = first?.do === 'write' ? first.status : {}
    expect(refusedToRestart({ ...observed, config: config(status) }, 'no memory')).toEqual([])
  })
})

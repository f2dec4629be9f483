import { describe, expect, it } from 'vitest'
import { completedByAnnotation } from '../api/machine.ts'
import type { MachineStatus } from '../api/machine.ts'
import type { Persisted } from '../runtime/resource.ts'
import { storedMachine } from '../test/stored-machine.ts'
import { launcherPod } from './launcher-pod.ts'
import { plan, refusedToCreate } from './plan.ts'
import type { Action, Observed } from './plan.ts'
import type { Pod, PodStatus } from './pod.ts'

const now = Date.UTC(2030, 0, 1, 0, 10, 0)
const at = (secondsAgo: number) => `${new Date(now - secondsAgo * 1000).toISOString().slice(0, 19)}Z`
const podUID = 'pod-uid'
const name = 'virt-launcher-vm1-a1b2c3d4'

const fresh = storedMachine()
const withStatus = (status: MachineStatus, over: Parameters<typeof storedMachine>[0] = {}) =>
  storedMachine({ ...over, status })
const inPhase = (phase: NonNullable<MachineStatus['phase']>, secondsAgo = 0) =>
  ({
    phase,
    podUID,
    nodeName: 'n1',
    conditions: [],
    phaseTransitionTimestamps: [{ phase, time: at(secondsAgo) }],
  }) as const
const running = withStatus(inPhase('Running'))
/** Whose handler said that it runs, after nobody could say. */
const returned = (secondsAgo: number) =>
  withStatus({
    ...inPhase('Running'),
    phaseTransitionTimestamps: [
      { phase: 'Running', time: at(1000) },
      { phase: 'Unknown', time: at(secondsAgo + 1) },
      { phase: 'Running', time: at(secondsAgo) },
    ],
  })
const deleting = { deletionTimestamp: at(0) }

const seen = (
  over: { status?: PodStatus; nodeName?: string; metadata?: Partial<Pod['metadata']> } = {},
): Persisted<Pod> => {
  const pod = launcherPod(fresh, { image: 'launcher:1', claims: new Map() })
  return {
    ...pod,
    metadata: { ...pod.metadata, name, uid: podUID, resourceVersion: '9', ...over.metadata },
    spec: { ...pod.spec, ...(over.nodeName === undefined ? {} : { nodeName: over.nodeName }) },
    ...(over.status ? { status: over.status } : {}),
  }
}

const observed = (over: Partial<Observed>): Observed => ({
  machine: fresh,
  pod: undefined,
  completion: { kind: 'done', presets: [] },
  claims: new Map(),
  node: 'answers',
  image: 'launcher:1',
  nowMs: now,
  ...over,
})

/** An action in a line: what a table can show. */
function line(action: Action): string {
  switch (action.do) {
    case 'write': {
      const { phase, reason, message } = action.status
      return `write ${phase}${reason === undefined ? '' : ` ${reason}: ${message}`}`
    }
    case 'tell':
      return `tell ${action.type} ${action.reason}: ${action.message}`
    case 'again':
      return `again ${action.afterMs}`
    case 'create':
    case 'delete':
      return `${action.do} ${action.pod.metadata.name}`
    default:
      return action.do
  }
}

const outOfMemory =
  'memory ran out, and the kernel ended the launcher pod, whose limit is 257 MiB; ' +
  'make what QEMU allocates smaller (features.tcg.tbCache, driver.metadataCache, fewer devices), ' +
  'or have a cluster preset raise memtune.hardLimit'

const terminated = (exitCode: number, secondsAgo: number, over: object = {}): PodStatus => ({
  phase: exitCode === 0 ? 'Succeeded' : 'Failed',
  containerStatuses: [
    {
      name: 'compute',
      state: {
        terminated: { exitCode, reason: exitCode === 0 ? 'Completed' : 'Error', finishedAt: at(secondsAgo), ...over },
      },
    },
  ],
})

const waiting = (reason: string, message: string): PodStatus => ({
  phase: 'Pending',
  containerStatuses: [{ name: 'compute', state: { waiting: { reason, message } } }],
})

const unschedulable = (message: string): PodStatus => ({
  phase: 'Pending',
  conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }],
})

const gone = `the launcher pod ${name} is gone; a VM never gets a second one`
const foreign = seen({ metadata: { ownerReferences: [] } })
const own = seen({ nodeName: 'n1' })
const evil = {
  ...own,
  spec: { ...own.spec, containers: own.spec.containers.map((one) => ({ ...one, image: 'evil:1' })) },
}
const notOwn = `the pod ${name} is not as the controller creates it: spec.containers[compute].image differs; delete it, and the controller creates its own`

const table: [string, Partial<Observed>, string[]][] = [
  ['a new VM gets its pod', {}, [`create ${name}`, `tell Normal SuccessfulCreate: Created pod ${name}`]],
  [
    'a new VM that was completed with presets gets its pod, and the presets are told',
    { completion: { kind: 'done', presets: ['site', 'default/small'] } },
    [
      `create ${name}`,
      `tell Normal SuccessfulCreate: Created pod ${name}`,
      'tell Normal PresetsApplied: Completed with the presets site, default/small',
    ],
  ],
  [
    'without our finalizer, that comes first',
    { machine: storedMachine({ metadata: { finalizers: ['other'] } }) },
    ['hold'],
  ],
  [
    'a VM that was never completed is completed first',
    { completion: { kind: 'todo', machine: fresh } },
    ['complete', 'tell Normal Completed: The spec was not completed at admission; the controller completed it'],
  ],
  [
    'what cannot be completed is told, all of it',
    {
      completion: {
        kind: 'refused',
        causes: [1, 2, 3, 4, 5, 6, 7].map((n) => ({
          rule: 'r',
          field: `f${n}`,
          reason: 'FieldValueInvalid',
          message: 'bad',
        })),
      },
    },
    [
      'write Pending CompletionRefused: f1: bad; f2: bad; f3: bad; f4: bad; f5: bad; and 2 more',
      'tell Warning CompletionRefused: f1: bad; f2: bad; f3: bad; f4: bad; f5: bad; and 2 more',
    ],
  ],
  [
    'a claim that does not exist is waited for',
    {
      machine: storedMachine({
        spec: { ...fresh.spec, volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }] },
      }),
    },
    ['write Pending ClaimNotFound: persistentvolumeclaim "c" not found', 'again 5000'],
  ],
  [
    'a pod of somebody else by its name is waited for',
    { pod: foreign },
    [`write Pending PodNameTaken: the pod ${name} is not of this VM`, 'again 5000'],
  ],
  [
    'a pod that the controller did not create is never adopted',
    { pod: evil },
    [`write Pending PodNotOwn: ${notOwn}`, 'again 5000', `tell Warning PodNotOwn: ${notOwn}`],
  ],
  [
    'also not when it has ended',
    { pod: { ...evil, status: terminated(1, 6) } },
    [`write Pending PodNotOwn: ${notOwn}`, 'again 5000', `tell Warning PodNotOwn: ${notOwn}`],
  ],
  [
    'a pod that became the VM’s is followed, whatever a new release would create',
    { machine: running, pod: seen({ nodeName: 'n1' }), image: 'launcher:2' },
    [],
  ],
  [
    'a VM that must not run gets no pod, not even one that is there',
    {
      pod: seen({ nodeName: 'n1' }),
      completion: {
        kind: 'refused',
        causes: [{ rule: 'host-reach', field: 'f', reason: 'FieldValueForbidden', message: 'bad' }],
      },
    },
    ['write Pending CompletionRefused: f: bad', 'tell Warning CompletionRefused: f: bad'],
  ],
  [
    'a VM that was never completed is completed, though a pod is there',
    { pod: seen({ nodeName: 'n1' }), completion: { kind: 'todo', machine: fresh } },
    ['complete', 'tell Normal Completed: The spec was not completed at admission; the controller completed it'],
  ],
  ['a pod that nobody has looked at is waited for, in silence', { pod: seen() }, []],
  [
    'what the scheduler says is copied',
    { pod: seen({ status: unschedulable('0/1 nodes are available') }) },
    [
      'write Scheduling Unschedulable: 0/1 nodes are available',
      'tell Warning FailedScheduling: 0/1 nodes are available',
    ],
  ],
  [
    'a scheduled pod hands the VM to the node',
    { pod: seen({ nodeName: 'n1' }) },
    ['write Scheduled', `tell Normal Scheduled: Pod ${name} is on node n1`],
  ],
  [
    'a pod that was deleted before that is a failed VM',
    { pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(0) } }) },
    [
      `write Failed PodDeleted: the launcher pod ${name} was deleted before the VM started`,
      `tell Warning PodDeleted: the launcher pod ${name} was deleted before the VM started`,
    ],
  ],
  [
    'a pod that is gone before anything was handed over is made again',
    { machine: withStatus({ phase: 'Pending' }) },
    [`create ${name}`, `tell Normal SuccessfulCreate: Created pod ${name}`],
  ],
  [
    'handed over, the rest is the handler’s',
    { machine: withStatus(inPhase('Scheduled')), pod: seen({ nodeName: 'n1' }) },
    [],
  ],
  [
    'a running VM in a running pod is left alone',
    { machine: running, pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }) },
    [],
  ],
  [
    'an image that cannot be pulled is told, the phase stays',
    {
      machine: withStatus(inPhase('Scheduled')),
      pod: seen({ nodeName: 'n1', status: waiting('ErrImagePull', 'no such image') }),
    },
    ['write Scheduled', 'tell Warning ErrImagePull: no such image'],
  ],
  [
    'a container that is merely being made is not',
    {
      machine: withStatus(inPhase('Scheduled')),
      pod: seen({ nodeName: 'n1', status: waiting('ContainerCreating', '') }),
    },
    [],
  ],
  [
    'a lost pod is a failed VM',
    { machine: running },
    [`write Failed PodLost: ${gone}`, `tell Warning PodLost: ${gone}`],
  ],
  [
    'also when only the scheduler had spoken',
    { machine: withStatus({ phase: 'Scheduling', podUID }) },
    [`write Failed PodLost: ${gone}`, `tell Warning PodLost: ${gone}`],
  ],
  [
    'a node that does not answer makes what runs there unknown',
    { machine: running, pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }), node: 'silent' },
    [
      'write Unknown NodeUnreachable: the node n1 does not answer; the VM may still run there, and is not started elsewhere',
      'tell Warning NodeUnreachable: the node n1 does not answer; the VM may still run there, and is not started elsewhere',
    ],
  ],
  [
    'and the handler says when it is heard of again',
    { machine: withStatus(inPhase('Unknown')), pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }) },
    [],
  ],
  [
    'a handler that answers though its kubelet does not is believed for five minutes',
    { machine: returned(60), pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }), node: 'silent' },
    ['again 240000'],
  ],
  [
    'and then asked to say it once more',
    { machine: returned(300), pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }), node: 'silent' },
    [
      'write Unknown NodeUnreachable: the node n1 does not answer; the VM may still run there, and is not started elsewhere',
      'tell Warning NodeUnreachable: the node n1 does not answer; the VM may still run there, and is not started elsewhere',
    ],
  ],
  [
    'what has not run yet waits for its node',
    { machine: withStatus(inPhase('Scheduled')), pod: seen({ nodeName: 'n1' }), node: 'silent' },
    [],
  ],
  [
    'a lost node is named',
    { machine: running, node: 'gone' },
    [
      `write Failed NodeLost: the node n1 is gone, and the launcher pod ${name} with it`,
      `tell Warning NodeLost: the node n1 is gone, and the launcher pod ${name} with it`,
    ],
  ],
  [
    'a second pod is none of ours: the VM has failed, the pod goes',
    { machine: running, pod: seen({ metadata: { uid: 'second' } }) },
    [`write Failed PodLost: ${gone}`, `tell Warning PodLost: ${gone}`, `delete ${name}`],
  ],
  [
    'an ended launcher leaves its handler five seconds to tell',
    { machine: running, pod: seen({ nodeName: 'n1', status: terminated(0, 2) }) },
    ['again 3000'],
  ],
  [
    'a kubelet whose clock is ahead does not stop us for long',
    { machine: running, pod: seen({ nodeName: 'n1', status: terminated(0, -600) }) },
    ['again 5000'],
  ],
  [
    'then its exit code is believed: well',
    { machine: running, pod: seen({ nodeName: 'n1', status: terminated(0, 6) }) },
    ['write Succeeded PodSucceeded: the launcher ended well', 'tell Normal PodSucceeded: the launcher ended well'],
  ],
  [
    'then its exit code is believed: not well',
    { machine: running, pod: seen({ nodeName: 'n1', status: terminated(1, 6) }) },
    [
      'write Failed Error: the launcher ended with exit code 1',
      'tell Warning Error: the launcher ended with exit code 1',
    ],
  ],
  [
    'a pod that was killed for memory says so, with its limit',
    { machine: running, pod: seen({ status: terminated(137, 6, { reason: 'OOMKilled' }) }) },
    [`write Failed OOMKilled: ${outOfMemory}`, `tell Warning OOMKilled: ${outOfMemory}`],
  ],
  [
    'an evicted pod has its own words',
    {
      machine: running,
      pod: seen({ status: { phase: 'Failed', reason: 'Evicted', message: 'The node was low on memory.' } }),
    },
    ['write Failed Evicted: The node was low on memory.', 'tell Warning Evicted: The node was low on memory.'],
  ],
  [
    'a pod that failed before hand-over is concluded from at once',
    { pod: seen({ status: { phase: 'Failed' } }) },
    [
      `write Failed PodFailed: the launcher pod ${name} failed`,
      `tell Warning PodFailed: the launcher pod ${name} failed`,
    ],
  ],
  [
    'a finished VM keeps its finished pod, for the logs',
    { machine: withStatus(inPhase('Succeeded', 999)), pod: seen({ status: terminated(0, 999) }) },
    [],
  ],
  ['and does not miss it', { machine: withStatus(inPhase('Succeeded', 999)) }, []],
  [
    'a launcher may take a minute to end after its VM',
    { machine: withStatus(inPhase('Failed', 20)), pod: seen({ nodeName: 'n1' }) },
    ['again 40000'],
  ],
  [
    'and is then ended',
    { machine: withStatus(inPhase('Failed', 61)), pod: seen({ nodeName: 'n1' }) },
    [`delete ${name}`],
  ],
  ['deleted before it had a pod, a VM goes', { machine: storedMachine({ metadata: deleting }) }, ['release']],
  [
    'without our finalizer there is nothing to do',
    { machine: storedMachine({ metadata: { ...deleting, finalizers: ['other'] } }) },
    [],
  ],
  [
    'deleted, its pod goes first',
    { machine: withStatus(inPhase('Running'), { metadata: deleting }), pod: seen({ nodeName: 'n1' }) },
    [`delete ${name}`, `tell Normal SuccessfulDelete: Deleted pod ${name}`],
  ],
  [
    'and is waited for',
    {
      machine: storedMachine({ metadata: deleting }),
      pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(-30) } }),
    },
    ['again 90000'],
  ],
  [
    'and if it does not end, that is said',
    {
      machine: withStatus(inPhase('Running'), { metadata: deleting }),
      pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(61) } }),
    },
    ['write Running'],
  ],
  [
    'on a node that does not answer nobody knows whether the guest has',
    {
      machine: withStatus(inPhase('Running'), { metadata: deleting }),
      pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(61) } }),
      node: 'silent',
    },
    [
      'write Unknown NodeUnreachable: the node n1 does not answer; the VM may still run there, and is not started elsewhere',
      'tell Warning NodeUnreachable: the node n1 does not answer; the VM may still run there, and is not started elsewhere',
    ],
  ],
  [
    'a deleted VM that was never completed is not completed',
    {
      machine: storedMachine({ metadata: { ...deleting, annotations: {} } }),
      completion: { kind: 'done', presets: [] },
    },
    ['release'],
  ],
  [
    'a deleted VM does not wait for a pod of somebody else',
    { machine: storedMachine({ metadata: deleting }), pod: foreign },
    ['release'],
  ],
]

describe('plan', () => {
  it.each(table)('%s', (_sentence, over, actions) => {
    expect(plan(observed(over)).map(line)).toEqual(actions)
  })

  const writes = table.flatMap(([sentence, over]) => {
    const written = plan(observed(over)).find((action) => action.do === 'write')
    return written && written.status.phase !== 'Scheduled' ? [{ sentence, over, status: written.status }] : []
  })

  it.each(writes)('$sentence; a status that stands already is not written again', ({ over, status }) => {
    const before = observed(over)
    const again = plan({ ...before, machine: { ...before.machine, status }, nowMs: now + 1000 })
    expect(again.filter(({ do: what }) => what === 'write' || what === 'tell')).toEqual([])
  })

  it('hand-over says everything in one write', () => {
    const [action] = plan(
      observed({ pod: seen({ nodeName: 'n1' }), completion: { kind: 'done', presets: ['a', 'ns/b'] } }),
    )
    const condition = (type: string, status: string, reason: string, message: string) => ({
      type,
      status,
      reason,
      message,
      observedGeneration: 1,
      lastTransitionTime: at(0),
    })
    expect(action).toEqual({
      do: 'write',
      status: {
        phase: 'Scheduled',
        podUID,
        nodeName: 'n1',
        presets: 'a,ns/b',
        machine: 'pc-q35-10.0',
        memory: '64Mi',
        cpus: 1,
        observedGeneration: 1,
        phaseTransitionTimestamps: [
          { phase: 'Pending', time: '2030-01-01T00:00:00Z' },
          { phase: 'Scheduled', time: at(0) },
        ],
        conditions: [
          condition('Completed', 'True', 'Completed', ''),
          condition('PodScheduled', 'True', 'Scheduled', 'on node n1'),
          condition('Ready', 'False', 'GuestNotRunning', 'the launcher is starting'),
          condition('Synchronized', 'False', 'AwaitingHandler', 'the handler has not seen it yet'),
        ],
      },
    })
  })

  it.each([
    [{ unit: 'KiB', value: 65_536 }, '64Mi'],
    [{ unit: 'MB', value: 64 }, '62500Ki'],
    [{ unit: 'GiB', value: 2048 }, '2Ti'],
    [{ value: '1048576' }, '1Gi'],
  ])('memory of %j is shown as %s', (memory, shown) => {
    const machine = storedMachine({ spec: { domain: { ...fresh.spec.domain, memory } } })
    expect(plan(observed({ machine, pod: seen({ nodeName: 'n1' }) }))[0]).toMatchObject({ status: { memory: shown } })
  })

  it('explains what the extended resource means', () => {
    const status = unschedulable('1 Insufficient devices.virtset.io/kvm.')
    const message =
      '1 Insufficient devices.virtset.io/kvm. (type: kvm wants a node with /dev/kvm; type: qemu runs anywhere, more slowly)'
    expect(plan(observed({ pod: seen({ status }) }))[0]).toMatchObject({ status: { message } })
  })

  it('a refused pod is told, and tried again', () => {
    expect(refusedToCreate(fresh, 'exceeded quota', at(0)).map(line)).toEqual([
      'tell Warning FailedCreate: exceeded quota',
      'write Pending FailedCreate: exceeded quota',
      'again 5000',
    ])
  })

  it('that a pod does not end is a condition of its own: Ready is what the handler says', () => {
    const ready = {
      type: 'Ready',
      status: 'False',
      reason: 'GuestPaused',
      message: '',
      lastTransitionTime: at(90),
    } as const
    const machine = withStatus({ ...inPhase('Running'), conditions: [ready] }, { metadata: deleting })
    const pod = seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(61) } })
    const conditions = plan(observed({ machine, pod })).map((action) => 'status' in action && action.status.conditions)
    expect(conditions).toEqual([[ready, expect.objectContaining({ type: 'PodEnded', status: 'False' })]])
  })

  it('never makes a pod for a VM whose status names one, whatever else is observed', () => {
    const machines = [
      running,
      withStatus({ podUID }),
      withStatus(inPhase('Failed')),
      storedMachine({ metadata: deleting }),
    ]
    const pods = [
      undefined,
      seen(),
      foreign,
      seen({ nodeName: 'n1', status: terminated(1, 99) }),
      seen({ metadata: { uid: 'second' } }),
    ]
    const completions = [
      { kind: 'done', presets: [] },
      { kind: 'todo', machine: fresh },
      { kind: 'refused', causes: [] },
    ] as const
    for (const machine of machines) {
      for (const pod of pods) {
        for (const completion of completions) {
          const actions = plan(observed({ machine, pod, completion }))
          expect(actions.some(({ do: what }) => what === 'create' || what === 'complete')).toBe(false)
        }
      }
    }
  })

  it('never releases a VM that has a pod', () => {
    const machine = storedMachine({ metadata: { ...deleting, annotations: { [completedByAnnotation]: '' } } })
    for (const pod of [
      seen(),
      seen({ status: terminated(0, 99) }),
      seen({ metadata: { deletionTimestamp: at(999) } }),
    ]) {
      expect(plan(observed({ machine, pod })).some(({ do: what }) => what === 'release')).toBe(false)
    }
  })
})

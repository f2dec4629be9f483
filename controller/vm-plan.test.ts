import { describe, expect, it } from 'vitest'
import { completedByAnnotation } from '../api/virtual-machine.ts'
import type { VirtualMachineStatus } from '../api/virtual-machine.ts'
import type { Persisted } from '../runtime/resource.ts'
import { storedVm } from '../test/stored-vm.ts'
import { launcherPod } from './launcher-pod.ts'
import { isPodOf } from './own-pod.ts'
import type { Action } from './vm-action.ts'
import { statesOf } from './vm-observed.ts'
import type { Mark, Observed } from './vm-observed.ts'
import { plan, refusedToCreate } from './vm-plan.ts'
import { pendingStatus, probedStatus, troubledStatus } from './vm-status.ts'
import type { Pod, PodStatus } from './pod.ts'

const now = Date.UTC(2030, 0, 1, 0, 10, 0)
const at = (secondsAgo: number) => `${new Date(now - secondsAgo * 1000).toISOString().slice(0, 19)}Z`
const podUID = 'pod-uid'
const name = 'virt-launcher-vm1-a1b2c3d4'

const fresh = storedVm()
const withClaim = storedVm({
  spec: { ...fresh.spec, volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }] },
})
const withStatus = (status: VirtualMachineStatus, over: Parameters<typeof storedVm>[0] = {}) =>
  storedVm({ ...over, status })
const inPhase = (phase: NonNullable<VirtualMachineStatus['phase']>, secondsAgo = 0) =>
  ({
    phase,
    podUID,
    nodeName: 'n1',
    conditions: [],
    phaseTransitionTimestamps: [{ phase, time: at(secondsAgo) }],
  }) as const
const running = withStatus(inPhase('Running'))
const claimVolume = { claimName: 'data', source: { empty: {} }, capacity: '1Gi' }
const withSource = {
  ...running,
  spec: { ...running.spec, volumes: [{ name: 'data', persistentVolumeClaim: claimVolume }] },
}
/** A VM whose handler reported Running after the phase was Unknown. */
const returned = withStatus({
  ...inPhase('Running'),
  phaseTransitionTimestamps: [
    { phase: 'Running', time: at(1000) },
    { phase: 'Unknown', time: at(2) },
    { phase: 'Running', time: at(1) },
  ],
})
const ownerOf = (kind: string, of: string, uid: string) => ({ apiVersion: 'virtset.io/v1alpha1', kind, name: of, uid })
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

/** What a row of the table varies. */
interface Variation extends Partial<Omit<Observed, 'pods' | 'foreignPod' | 'elapsed'>> {
  /** The pod with the name of the VM's. */
  readonly pod?: Persisted<Pod> | undefined
  readonly copies?: readonly Persisted<Pod>[]
  /** Seconds. */
  readonly elapsed?: { readonly [mark in Mark]?: number }
}

const observed = ({ pod, copies = [], elapsed = {}, vm = fresh, ...over }: Variation): Observed => {
  const isOwn = pod !== undefined && isPodOf(vm, pod)
  const pods = [...(isOwn ? [pod] : []), ...copies]
  return {
    vm,
    pods,
    foreignPod: isOwn ? undefined : pod,
    predecessors: [],
    isEndObserved: false,
    isFillRecorded: false,
    failure: undefined,
    completion: { kind: 'done', presets: [] },
    claims: new Map(),
    lostSnapshots: [],
    node: 'ready',
    image: 'launcher:1',
    elapsed: new Map(
      [...statesOf(vm, pods, over.node ?? 'ready').keys()].map((mark) => [mark, (elapsed[mark] ?? 0) * 1000]),
    ),
    now: at(0),
    ...over,
  }
}

/** An action in a line: what a table can show. */
function line(action: Action): string {
  switch (action.do) {
    case 'updateStatus': {
      const { phase, reason, message, conditions = [] } = action.status
      if (reason !== undefined) return `updateStatus ${phase} ${reason}${message === undefined ? '' : `: ${message}`}`
      const shown = conditions.at(-1)
      if (shown === undefined || shown.type === 'Synchronized') return `updateStatus ${phase}`
      return `updateStatus ${phase} ${shown.type} ${shown.status} ${shown.reason}: ${shown.message}`
    }
    case 'recordEvent':
      return `recordEvent ${action.type} ${action.reason}: ${action.message}`
    case 'requeueAfter':
      return `requeueAfter ${action.afterMs}`
    case 'createPod':
    case 'deletePod':
      return `${action.do} ${action.pod.metadata.name}`
    case 'replacePod':
      return `${action.do} ${action.pod.metadata.name} after ${action.createAfterMs}`
    default:
      return action.do
  }
}

const outOfMemory =
  'memory ran out, and the kernel ended the launcher pod, whose limit is 257 MiB; ' +
  'make what QEMU allocates smaller (features.tcg.tbCache, driver.metadataCache, fewer devices), ' +
  'or have a cluster preset raise memtune.hardLimit'

const terminated = (exitCode: number, over: object = {}): PodStatus => ({
  phase: exitCode === 0 ? 'Succeeded' : 'Failed',
  containerStatuses: [
    {
      name: 'compute',
      state: {
        terminated: { exitCode, reason: exitCode === 0 ? 'Completed' : 'Error', ...over },
      },
    },
  ],
})

const waiting = (reason: string, message: string): PodStatus => ({
  phase: 'Pending',
  containerStatuses: [{ name: 'compute', state: { waiting: { reason, message } } }],
})

/** A VM with a claim, whose volumes the kubelet has not mounted yet. */
const creating = {
  vm: withStatus(inPhase('Scheduled')),
  pod: {
    ...seen({ status: waiting('ContainerCreating', '') }),
    spec: { ...launcherPod(withClaim, { image: 'launcher:1', claims: new Map() }).spec, nodeName: 'n1' },
  },
}
const mountFailed = {
  ...creating,
  vm: { ...creating.vm, status: troubledStatus(creating.vm, 'FailedMount', 'volume "data": no such disk', at(0)) },
}

const unschedulable = (message: string): PodStatus => ({
  phase: 'Pending',
  conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }],
})

const gone = `the launcher pod ${name} no longer exists; a VM never gets a second one`
const unreachable = 'the node n1 does not respond; the VM may still run there, and does not start elsewhere'
const foreign = {
  ...seen({ metadata: { ownerReferences: [], labels: {}, uid: 'foreign' } }),
  spec: { ...seen().spec, containers: [] },
}
/** What `--cascade=orphan` leaves of the VM's pod. */
const orphaned = (over: Parameters<typeof seen>[0] = {}) =>
  seen({ ...over, metadata: { ...over.metadata, ownerReferences: [] } })
const own = seen({ nodeName: 'n1' })
const evil = {
  ...own,
  spec: { ...own.spec, containers: own.spec.containers.map((one) => ({ ...one, image: 'evil:1' })) },
}
const differs = `the pod ${name} differs from the launcher pod that the controller would create`
const notOwn = `${differs}: spec.containers[compute].image; it is replaced`
const notLabelled = `${differs}: metadata.labels[virtset.io/vm-uid]; delete it, and the controller creates its own`

const unconfirmed = `the launcher pod ${name} no longer exists, but its end was not observed; waiting for the handler of node n1 to confirm it`
const stuck = `the pod ${name} on node n1 has not ended within its grace period; the VM stays until it has`
const volumeStuck = 'the pod p of an attached volume on node n1 has not ended; the VM stays until it has'
const withCondition = (type: string, reason: string, message: string, status: 'True' | 'False' = 'True') =>
  withStatus({
    ...inPhase('Running'),
    conditions: [{ type, status, reason, message, observedGeneration: 1, lastTransitionTime: at(9) }],
  })
const confirmed = withCondition('PodEnded', 'LauncherAbsent', '')
const target = (reason: string, message: string) =>
  ({ type: 'DisruptionTarget', status: 'True', reason, message }) as const
const evicted = seen({
  nodeName: 'n1',
  metadata: { deletionTimestamp: at(0) },
  status: { phase: 'Running', conditions: [target('EvictionByEvictionAPI', 'Eviction API: evicting')] },
})
const drained = 'the launcher pod was evicted, as `kubectl drain` does: Eviction API: evicting'
const podReady = (status: 'True' | 'False') =>
  seen({ nodeName: 'n1', status: { phase: 'Running', conditions: [{ type: 'Ready', status }] } })
/** A running VM with a probe whose result was reported before. */
const probed = (status: 'True' | 'False' | undefined) => {
  const vm = withStatus(inPhase('Running'), { spec: { ...fresh.spec, readinessProbe: { tcpSocket: { port: 1 } } } })
  return status === undefined
    ? vm
    : { ...vm, status: probedStatus(vm, status === 'True' ? 'succeeds' : 'fails', at(5)) }
}
const alive = withStatus(inPhase('Running'), { spec: { ...fresh.spec, livenessProbe: { tcpSocket: { port: 1 } } } })
const notAlive = `the liveness probe failed, and the kubelet ended the guest; kubectl describe pod ${name} shows the error of the probe`
const booting = withStatus(inPhase('Running'), { spec: { ...alive.spec, startupProbe: { tcpSocket: { port: 1 } } } })
const podStarting = seen({
  nodeName: 'n1',
  status: {
    phase: 'Running',
    conditions: [{ type: 'Ready', status: 'False' }],
    containerStatuses: [{ name: 'compute', started: false }],
  },
})
const notBooted = `the startup probe failed, and the kubelet ended the guest; kubectl describe pod ${name} shows the error of the probe`
const evicting = withCondition('DisruptionTarget', 'EvictionByEvictionAPI', drained)
const endedWithPod = withCondition('DisruptionTarget', 'PodTerminated', 'the launcher pod was deleted')
const awaited = withStatus({
  ...inPhase('Running'),
  conditions: [
    {
      type: 'PodEnded',
      status: 'Unknown',
      reason: 'AwaitingHandler',
      message: unconfirmed,
      observedGeneration: 1,
      lastTransitionTime: at(9),
    },
  ],
})
/** The user requested a stop with this grace period last. */
const stopped = (seconds: string) => ({
  metadata: { ...deleting, annotations: { 'virtset.io/grace-period-seconds': seconds } },
})
const present = withCondition('PodEnded', 'LauncherPresent', '', 'False')
/** What the handler writes. */
const finishedAfter = (vm: typeof running) => ({
  ...vm,
  status: { ...vm.status, phase: 'Failed' as const, reason: 'Destroyed' },
})
const deletedPod = [
  `updateStatus Failed PodDeleted: the launcher pod ${name} was deleted; how the guest ended: Destroyed`,
  `recordEvent Warning PodDeleted: the launcher pod ${name} was deleted`,
]
/** As a restore makes it. */
const copy = seen({ metadata: { name: `${name}-copy`, uid: 'copy', ownerReferences: [] } })
const noSpace = `{"level":"info","msg":"starting"}
{"level":"error","err":{"message":"ENOSPC: no space left on device"},"msg":"cannot start"}
`

const rejection =
  'Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices devices.virtset.io/kvm, which is unexpected'
const rejected = (over: PodStatus = {}) =>
  seen({
    nodeName: 'n1',
    status: { phase: 'Failed', reason: 'UnexpectedAdmissionError', message: rejection, ...over },
  })
const wasRejected = `the kubelet of node n1 rejected the launcher pod ${name}, which ran nothing; the controller creates it again after 5 s (UnexpectedAdmissionError: ${rejection})`
const unfitted = "Pod was rejected: Predicate NodeAffinity failed: node(s) did not match Pod's node affinity/selector"
const wasUnfitted = wasRejected.replace(`UnexpectedAdmissionError: ${rejection}`, `NodeAffinity: ${unfitted}`)
const rejecting = withStatus({
  phase: 'Pending',
  reason: 'PodRejected',
  message: wasRejected,
  phaseTransitionTimestamps: [{ phase: 'Pending', time: at(4) }],
  observedGeneration: 1,
  conditions: pendingStatus(fresh, 'PodRejected', wasRejected, at(4)).conditions ?? [],
})

const table: [string, Variation, string[]][] = [
  ['a new VM gets its pod', {}, [`createPod ${name}`, `recordEvent Normal SuccessfulCreate: Created pod ${name}`]],
  [
    'a new VM that was completed with presets gets its pod, and an event names the presets',
    { completion: { kind: 'done', presets: ['site', 'default/small'] } },
    [
      `createPod ${name}`,
      `recordEvent Normal SuccessfulCreate: Created pod ${name}; the presets of the VM are site, default/small`,
    ],
  ],
  [
    'a VM without the finalizer gets it first',
    { vm: storedVm({ metadata: { finalizers: ['other'] } }) },
    ['addFinalizer'],
  ],
  [
    'a VM that was never completed is completed first',
    { completion: { kind: 'todo', vm: fresh } },
    [
      'completeSpec',
      'recordEvent Normal Completed: The spec was not completed at admission; the controller completed it',
    ],
  ],
  [
    'a VM that cannot be completed reports all causes',
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
      'updateStatus Pending CompletionRefused: f1: bad; f2: bad; f3: bad; f4: bad; f5: bad; and 2 more',
      'recordEvent Warning CompletionRefused: f1: bad; f2: bad; f3: bad; f4: bad; f5: bad; and 2 more',
    ],
  ],
  [
    'waits for a claim that does not exist',
    { vm: withClaim },
    ['updateStatus Pending ClaimNotFound: persistentvolumeclaim "c" not found', 'requeueAfter 5000'],
  ],
  ...(
    [
      ['is being deleted', { deletionTimestamp: at(0) }],
      ['belongs to an earlier VM of this name', { ownerReferences: [ownerOf('VirtualMachine', 'vm1', 'old')] }],
      ['belongs to an earlier config', { ownerReferences: [ownerOf('VirtualMachineConfig', 'vm1', 'old')] }],
      ['belongs to an earlier group', { ownerReferences: [ownerOf('VirtualMachineGroup', 'web', 'old')] }, 'web'],
    ] as const
  ).map(([what, metadata, group]): [string, Variation, string[]] => {
    const kind = group === undefined ? 'VirtualMachineConfig' : 'VirtualMachineGroup'
    const owner = { ...ownerOf(kind, group ?? 'vm1', 'new'), controller: true }
    const vm = { ...withClaim, metadata: { ...withClaim.metadata, ownerReferences: [owner] } }
    const message =
      'persistentvolumeclaim "c" is being deleted, or will be with the earlier VM, config or group of this name that owns it'
    return [
      `waits for a claim that ${what}`,
      { vm, claims: new Map([['c', { metadata: { name: 'c', ...metadata } }]]) },
      [`updateStatus Pending ClaimTerminating: ${message}`, 'requeueAfter 5000'],
    ]
  }),
  [
    'waits for VolumeSnapshots that do not exist, rather than for those that are being deleted',
    {
      vm: withClaim,
      claims: new Map([['c', { metadata: { name: 'c' } }]]),
      lostSnapshots: [
        { claimName: 'c', name: 's', isEnding: false },
        { claimName: 'd', name: 'u', isEnding: true },
        { claimName: 'e', name: 't', isEnding: false },
      ],
    },
    [
      'updateStatus Pending VolumeSnapshotNotFound: persistentvolumeclaim "c" is made from the VolumeSnapshot "s", persistentvolumeclaim "e" is made from the VolumeSnapshot "t", which does not exist: create it; or stop the VM, change the source in the claim template, and delete the claim, which has no data yet',
      'requeueAfter 5000',
    ],
  ],
  [
    'waits for a VolumeSnapshot that is being deleted',
    {
      vm: withClaim,
      claims: new Map([['c', { metadata: { name: 'c' } }]]),
      lostSnapshots: [{ claimName: 'c', name: 's', isEnding: true }],
    },
    [
      'updateStatus Pending VolumeSnapshotTerminating: persistentvolumeclaim "c" is made from the VolumeSnapshot "s", which is being deleted, so the storage does not fill the claim: keep the claim until an administrator has saved what the VolumeSnapshot contains',
      'requeueAfter 5000',
    ],
  ],
  ...(
    [
      ['its own config', ownerOf('VirtualMachineConfig', 'vm1', 'new')],
      ['another config', ownerOf('VirtualMachineConfig', 'other', 'old')],
      ['an object of another API', { ...ownerOf('VirtualMachine', 'vm1', 'old'), apiVersion: 'kubevirt.io/v1' }],
    ] as const
  ).map(([what, owner]): [string, Variation, string[]] => {
    const own = { ...ownerOf('VirtualMachineConfig', 'vm1', 'new'), controller: true }
    const vm = { ...withClaim, metadata: { ...withClaim.metadata, ownerReferences: [own] } }
    const claims = new Map([['c', { metadata: { name: 'c', ownerReferences: [owner] } }]])
    return [
      `uses a claim of ${what}`,
      { vm, claims },
      [`createPod ${name}`, `recordEvent Normal SuccessfulCreate: Created pod ${name}`],
    ]
  }),
  ...(
    [
      [1, 5000],
      [8, 5000],
      [9, 10_000],
      [256, 60_000],
    ] as const
  ).map(([count, afterMs]): [string, Variation, string[]] => {
    const names = Array.from({ length: count }, (_, index) => `c${index}`)
    const volumes = names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }))
    const vm = storedVm({ spec: { ...fresh.spec, volumes } })
    const message = `persistentvolumeclaim ${names.map((name) => `"${name}"`).join(', ')} not found`
    const status = pendingStatus(vm, 'ClaimNotFound', message, at(0))
    return [`looks for ${count} claims`, { vm: { ...vm, status } }, [`requeueAfter ${afterMs}`]]
  }),
  ...(
    [
      [200, 20_000],
      [3600, 60_000],
    ] as const
  ).map(([waiting, afterMs]): [string, Variation, string[]] => {
    const message = 'persistentvolumeclaim "c" not found'
    const status = pendingStatus(withClaim, 'ClaimNotFound', message, at(0))
    return [
      `looks for a claim less often after ${waiting} s`,
      { vm: { ...withClaim, status }, elapsed: { waiting } },
      [`requeueAfter ${afterMs}`],
    ]
  }),
  [
    'waits for a foreign pod of its name to disappear',
    { pod: foreign },
    [`updateStatus Pending PodNameTaken: the pod ${name} does not belong to this VM`, 'requeueAfter 5000'],
  ],
  [
    'a pod that differs from the one that the controller would create is never adopted, but replaced',
    { pod: evil },
    [
      `updateStatus Pending PodNotOwn: ${notOwn}`,
      'requeueAfter 5000',
      `recordEvent Warning PodNotOwn: ${notOwn}`,
      `replacePod ${name} after 10000`,
    ],
  ],
  [
    'nor one without the label that only the controller can set, which could have more containers',
    { pod: { ...own, metadata: { ...own.metadata, labels: {} } } },
    [
      `updateStatus Pending PodNotOwn: ${notLabelled}`,
      'requeueAfter 5000',
      `recordEvent Warning PodNotOwn: ${notLabelled}`,
    ],
  ],
  [
    'nor when it has ended',
    { pod: { ...evil, status: terminated(1) } },
    [
      `updateStatus Pending PodNotOwn: ${notOwn}`,
      'requeueAfter 5000',
      `recordEvent Warning PodNotOwn: ${notOwn}`,
      `replacePod ${name} after 10000`,
    ],
  ],
  [
    'an adopted pod is followed, even if a new release would create another',
    { vm: running, pod: seen({ nodeName: 'n1' }), image: 'launcher:2' },
    [],
  ],
  [
    'a refused VM gets no pod, not even an existing one',
    {
      pod: seen({ nodeName: 'n1' }),
      completion: {
        kind: 'refused',
        causes: [{ rule: 'host-reach', field: 'f', reason: 'FieldValueForbidden', message: 'bad' }],
      },
    },
    ['updateStatus Pending CompletionRefused: f: bad', 'recordEvent Warning CompletionRefused: f: bad'],
  ],
  [
    'a VM that was never completed is completed, although a pod exists',
    { pod: seen({ nodeName: 'n1' }), completion: { kind: 'todo', vm: fresh } },
    [
      'completeSpec',
      'recordEvent Normal Completed: The spec was not completed at admission; the controller completed it',
    ],
  ],
  ['waits silently for the first attempt of the scheduler', { pod: seen() }, []],
  [
    'copies the reason of the scheduler',
    { pod: seen({ status: unschedulable('0/1 nodes are available') }) },
    [
      'updateStatus Scheduling Unschedulable: 0/1 nodes are available',
      'recordEvent Warning FailedScheduling: 0/1 nodes are available',
    ],
  ],
  ['a scheduled pod hands the VM to the node', { pod: seen({ nodeName: 'n1' }) }, ['updateStatus Scheduled']],
  [
    'a pod that was deleted before that is a failed VM',
    { pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(0) } }) },
    [
      `updateStatus Failed PodDeleted: the launcher pod ${name} was deleted before the VM started`,
      `recordEvent Warning PodDeleted: the launcher pod ${name} was deleted before the VM started`,
    ],
  ],
  ...(
    [
      ['unless another version of the controller replaces it', {}],
      ['also when it has ended', terminated(1)],
    ] as const
  ).map(([what, status]): [string, Variation, string[]] => [
    what,
    {
      vm: withStatus({ phase: 'Pending', reason: 'PodNotOwn', message: notOwn }),
      pod: seen({ nodeName: 'n1', status, metadata: { deletionTimestamp: at(0) } }),
    },
    [
      `updateStatus Pending PodNotOwn: the pod ${name} is being replaced: another is created when it has ended`,
      'requeueAfter 5000',
    ],
  ]),
  [
    'a pod that disappeared before the hand-over is created again',
    { vm: withStatus({ phase: 'Pending' }) },
    [`createPod ${name}`, `recordEvent Normal SuccessfulCreate: Created pod ${name}`],
  ],
  [
    'after the hand-over, the handler acts',
    { vm: withStatus(inPhase('Scheduled')), pod: seen({ nodeName: 'n1' }) },
    [],
  ],
  [
    'a claim that the running guest was to fill is marked once',
    { vm: withSource, pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }) },
    ['markFilled'],
  ],
  [
    'and not again',
    { vm: withSource, pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }), isFillRecorded: true },
    [],
  ],
  [
    'a running VM in a running pod is left alone',
    { vm: running, pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }) },
    [],
  ],
  [
    'reports an image that cannot be pulled, without a change of phase',
    {
      vm: withStatus(inPhase('Scheduled')),
      pod: seen({ nodeName: 'n1', status: waiting('ErrImagePull', 'no such image') }),
    },
    [
      'updateStatus Scheduled Ready False ErrImagePull: no such image',
      'recordEvent Warning ErrImagePull: no such image',
    ],
  ],
  [
    'does not report a container that is being created',
    {
      vm: withStatus(inPhase('Scheduled')),
      pod: seen({ nodeName: 'n1', status: waiting('ContainerCreating', '') }),
    },
    [],
  ],
  [
    'looks for the cause when the volumes of a pod are not mounted in time',
    { ...creating, elapsed: { creating: 2 } },
    ['requeueAfter 3000'],
  ],
  [
    'reports why a volume is not mounted, and looks again',
    {
      ...creating,
      failure: { reason: 'FailedMount', message: 'volume "data": no such disk' },
      elapsed: { creating: 12 },
    },
    [
      'updateStatus Scheduled Ready False FailedMount: volume "data": no such disk',
      'recordEvent Warning FailedMount: volume "data": no such disk',
      'requeueAfter 12000',
    ],
  ],
  [
    'reports why a network of the pod is not created',
    {
      ...creating,
      failure: { reason: 'FailedCreatePodSandBox', message: 'network "lab": gone' },
      elapsed: { creating: 7 },
    },
    [
      'updateStatus Scheduled Ready False FailedCreatePodSandBox: network "lab": gone',
      'recordEvent Warning FailedCreatePodSandBox: network "lab": gone',
      'requeueAfter 7000',
    ],
  ],
  [
    'reports an image that is being pulled',
    { ...creating, failure: { reason: 'PullingImage', message: 'volume "root": slow' }, elapsed: { creating: 7 } },
    [
      'updateStatus Scheduled Ready False PullingImage: volume "root": slow',
      'recordEvent Normal PullingImage: volume "root": slow',
      'requeueAfter 7000',
    ],
  ],
  [
    'reports the same cause once, and looks again at least once a minute',
    {
      ...mountFailed,
      failure: { reason: 'FailedMount', message: 'volume "data": no such disk' },
      elapsed: { creating: 500 },
    },
    ['requeueAfter 60000'],
  ],
  [
    'a pod that disappeared while its node responds: waits for the handler first',
    { vm: running },
    [`updateStatus Running PodEnded Unknown AwaitingHandler: ${unconfirmed}`, 'requeueAfter 120000'],
  ],
  [
    'the handler confirmed its end: the VM has failed',
    { vm: confirmed },
    [`updateStatus Failed PodLost: ${gone}`, `recordEvent Warning PodLost: ${gone}`],
  ],
  [
    'the controller observed its end: the VM has failed',
    { vm: running, isEndObserved: true },
    [`updateStatus Failed PodLost: ${gone}`, `recordEvent Warning PodLost: ${gone}`],
  ],
  [
    'the handler reports nothing within the grace period of the pod and a minute: the VM has failed',
    { vm: running, elapsed: { podMissing: 120 } },
    [`updateStatus Failed PodLost: ${gone}`, `recordEvent Warning PodLost: ${gone}`],
  ],
  [
    'a forced deletion on a node that does not respond is the operator’s statement',
    { vm: running, node: 'silent' },
    [`updateStatus Failed PodLost: ${gone}`, `recordEvent Warning PodLost: ${gone}`],
  ],
  [
    'but not one from before, for which the handler is awaited',
    { vm: awaited, node: 'silent' },
    [`updateStatus Unknown NodeUnreachable: ${unreachable}`, `recordEvent Warning NodeUnreachable: ${unreachable}`],
  ],
  [
    'a stop that requests less than the grace period of the pod does not shorten that',
    {
      vm: withStatus(inPhase('Running'), stopped('0')),
      elapsed: { podMissing: 119 },
    },
    [`updateStatus Running PodEnded Unknown AwaitingHandler: ${unconfirmed}`, 'requeueAfter 1000'],
  ],
  [
    'nor does it shorten the grace period that the pod was deleted with',
    { vm: withStatus({ ...inPhase('Running'), podGracePeriodSeconds: 86_430 }, stopped('0')) },
    [`updateStatus Running PodEnded Unknown AwaitingHandler: ${unconfirmed}`, 'requeueAfter 86490000'],
  ],
  ['the handler sees the launcher: waits without limit', { vm: present, elapsed: { podMissing: 86_400 } }, []],
  [
    'also when the node does not respond',
    { vm: present, node: 'silent' },
    [`updateStatus Unknown NodeUnreachable: ${unreachable}`, `recordEvent Warning NodeUnreachable: ${unreachable}`],
  ],
  [
    'the kubelet reports that it cannot run pods: the time does not count, because it may not be able to end them',
    { vm: running, elapsed: { podMissing: 86_400 }, node: 'unready' },
    [`updateStatus Running PodEnded Unknown AwaitingHandler: ${unconfirmed}`, 'requeueAfter 120000'],
  ],
  [
    'unless its Node is deleted',
    { vm: awaited, node: 'gone' },
    [
      `updateStatus Failed NodeLost: the node n1 no longer exists, nor does the launcher pod ${name} on it`,
      `recordEvent Warning NodeLost: the node n1 no longer exists, nor does the launcher pod ${name} on it`,
    ],
  ],
  [
    'an evicted VM whose pod is gone states the eviction',
    { vm: evicting, isEndObserved: true },
    [`updateStatus Failed EvictionByEvictionAPI: ${drained}`, `recordEvent Warning EvictionByEvictionAPI: ${drained}`],
  ],
  [
    'a probe that fails is reported',
    { vm: probed(undefined), pod: podReady('False') },
    ['updateStatus Running ProbeSucceeded False ProbeFailing: the pod is not ready: kubectl describe pod'],
  ],
  [
    'a probe that succeeds is reported',
    { vm: probed('False'), pod: podReady('True') },
    ['updateStatus Running ProbeSucceeded True ProbeSucceeded: '],
  ],
  [
    'a startup probe that has not succeeded yet is reported',
    { vm: booting, pod: podStarting },
    ['updateStatus Running ProbeSucceeded False StartupProbePending: the startup probe has not succeeded yet'],
  ],
  [
    'and that it has succeeded, also if the VM has no readiness probe',
    { vm: booting, pod: podReady('True') },
    ['updateStatus Running ProbeSucceeded True ProbeSucceeded: '],
  ],
  ['and once', { vm: probed('True'), pod: podReady('True') }, []],
  [
    'a pod that the kubelet has not probed yet is not reported',
    { vm: probed(undefined), pod: seen({ nodeName: 'n1' }) },
    [],
  ],
  ['nor is the readiness of a VM without a probe', { vm: running, pod: podReady('False') }, []],
  [
    'an eviction is recorded while the guest still runs',
    { vm: running, pod: evicted },
    [
      `updateStatus Running DisruptionTarget True EvictionByEvictionAPI: ${drained}`,
      `recordEvent Warning EvictionByEvictionAPI: ${drained}`,
    ],
  ],
  ['and once', { vm: evicting, pod: evicted }, []],
  [
    'so is the deletion of the pod',
    { vm: running, pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(0) } }) },
    [
      `updateStatus Running DisruptionTarget True PodDeleted: the launcher pod ${name} was deleted`,
      `recordEvent Warning PodDeleted: the launcher pod ${name} was deleted`,
    ],
  ],
  [
    'the end that the handler reported gets the reason why',
    { vm: finishedAfter(evicting) },
    [`updateStatus Failed EvictionByEvictionAPI: ${drained}; how the guest ended: Destroyed`],
  ],
  [
    'also where the handler was faster than the condition',
    { vm: finishedAfter(running), pod: { ...evicted, status: { ...evicted.status, phase: 'Failed' } } },
    [
      `updateStatus Failed EvictionByEvictionAPI: ${drained}; how the guest ended: Destroyed`,
      `recordEvent Warning EvictionByEvictionAPI: ${drained}`,
    ],
  ],
  [
    'and where the handler only knew that the pod was terminated',
    { vm: finishedAfter(endedWithPod), pod: { ...evicted, status: { ...evicted.status, phase: 'Failed' } } },
    [
      `updateStatus Failed EvictionByEvictionAPI: ${drained}; how the guest ended: Destroyed`,
      `recordEvent Warning EvictionByEvictionAPI: ${drained}`,
    ],
  ],
  [
    'which stays the reason while the pod has no other',
    { vm: finishedAfter(endedWithPod), pod: podReady('True') },
    ['requeueAfter 60000'],
  ],
  [
    'a pod that is being deleted was the reason if the handler reported that it was terminated',
    {
      vm: finishedAfter(endedWithPod),
      pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(0) } }),
    },
    deletedPod,
  ],
  ['so was one that no longer exists', { vm: finishedAfter(endedWithPod) }, deletedPod],
  [
    'a pod that the controller deletes after the end of the guest is not a reason',
    {
      vm: finishedAfter(running),
      pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(0) } }),
    },
    [],
  ],
  [
    'reports that the pod garbage collector ended a pod',
    {
      vm: running,
      pod: seen({
        nodeName: 'n1',
        status: { phase: 'Failed', conditions: [target('DeletionByPodGC', 'PodGC: node is out of service')] },
      }),
      elapsed: { podEnded: 5 },
    },
    [
      'updateStatus Failed DeletionByPodGC: the pod garbage collector deleted the launcher pod: PodGC: node is out of service',
      'recordEvent Warning DeletionByPodGC: the pod garbage collector deleted the launcher pod: PodGC: node is out of service',
    ],
  ],
  [
    'a pod without its owner is still the VM’s',
    { vm: running, pod: orphaned({ nodeName: 'n1', status: { phase: 'Running' } }) },
    [],
  ],
  [
    'so is one without its label and its owner, once the status names it',
    { vm: running, pod: seen({ nodeName: 'n1', metadata: { ownerReferences: [], labels: {} } }) },
    [],
  ],
  [
    'a copy of the pod by another name is deleted',
    { vm: running, pod: seen({ nodeName: 'n1' }), copies: [copy] },
    [`deletePod ${name}-copy`],
  ],
  [
    'a VM waits for the pod of an earlier VM of its name',
    { predecessors: [seen({ metadata: { name: 'virt-launcher-vm1-00000000' } })] },
    [
      'updateStatus Pending PredecessorPodExists: the launcher pod virt-launcher-vm1-00000000 of an earlier VM of this name still exists; this VM starts when it has ended',
      'requeueAfter 5000',
    ],
  ],
  [
    'also before the pod was scheduled',
    { vm: withStatus({ phase: 'Scheduling', podUID }) },
    [`updateStatus Failed PodLost: ${gone}`, `recordEvent Warning PodLost: ${gone}`],
  ],
  [
    'a VM on a node that does not respond becomes Unknown',
    { vm: running, pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }), node: 'silent' },
    [`updateStatus Unknown NodeUnreachable: ${unreachable}`, `recordEvent Warning NodeUnreachable: ${unreachable}`],
  ],
  [
    'and remains so until the handler reports',
    { vm: withStatus(inPhase('Unknown')), pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }) },
    [],
  ],
  [
    'a handler that reports although its kubelet does not is trusted for five minutes',
    {
      vm: returned,
      pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }),
      node: 'silent',
      elapsed: { runningAgain: 60 },
    },
    ['requeueAfter 240000'],
  ],
  [
    'and must then report again',
    {
      vm: returned,
      pod: seen({ nodeName: 'n1', status: { phase: 'Running' } }),
      node: 'silent',
      elapsed: { runningAgain: 300 },
    },
    [`updateStatus Unknown NodeUnreachable: ${unreachable}`, `recordEvent Warning NodeUnreachable: ${unreachable}`],
  ],
  [
    'a VM that has not run yet waits for its node',
    { vm: withStatus(inPhase('Scheduled')), pod: seen({ nodeName: 'n1' }), node: 'silent' },
    [],
  ],
  [
    'a lost node is named',
    { vm: running, node: 'gone' },
    [
      `updateStatus Failed NodeLost: the node n1 no longer exists, nor does the launcher pod ${name} on it`,
      `recordEvent Warning NodeLost: the node n1 no longer exists, nor does the launcher pod ${name} on it`,
    ],
  ],
  [
    'a second pod is not adopted: the VM has failed, and the pod is deleted',
    { vm: running, pod: seen({ metadata: { uid: 'second' } }), isEndObserved: true },
    [`updateStatus Failed PodLost: ${gone}`, `recordEvent Warning PodLost: ${gone}`, `deletePod ${name}`],
  ],
  [
    'an ended launcher leaves its handler five seconds to report, from when the controller first observes the end',
    { vm: running, pod: seen({ nodeName: 'n1', status: terminated(0) }), elapsed: { podEnded: 2 } },
    ['requeueAfter 3000'],
  ],
  [
    'then its exit code decides: 0',
    { vm: running, pod: seen({ nodeName: 'n1', status: terminated(0) }), elapsed: { podEnded: 6 } },
    [
      'updateStatus Succeeded PodSucceeded: the launcher exited with code 0',
      'recordEvent Normal PodSucceeded: the launcher exited with code 0',
    ],
  ],
  [
    'then its exit code decides: 1',
    { vm: running, pod: seen({ nodeName: 'n1', status: terminated(1) }), elapsed: { podEnded: 6 } },
    [
      'updateStatus Failed Error: the launcher exited with code 1',
      'recordEvent Warning Error: the launcher exited with code 1',
    ],
  ],
  [
    'a launcher that was asked to terminate has a guest whose liveness probe failed',
    { vm: alive, pod: seen({ nodeName: 'n1', status: terminated(143) }), elapsed: { podEnded: 6 } },
    [`updateStatus Failed LivenessProbeFailed: ${notAlive}`, `recordEvent Warning LivenessProbeFailed: ${notAlive}`],
  ],
  ...(
    [
      ['or whose startup probe failed, if it has not succeeded', booting, 'StartupProbeFailed', notBooted],
      [
        'the same if that was reported',
        { ...booting, status: probedStatus(booting, 'has not started', at(5)) },
        'StartupProbeFailed',
        notBooted,
      ],
      [
        'otherwise the liveness probe, even if the guest was not ready',
        { ...booting, status: probedStatus(booting, 'fails', at(5)) },
        'LivenessProbeFailed',
        notAlive,
      ],
    ] as const
  ).map(([title, vm, reason, message]): [string, Variation, string[]] => [
    title,
    { vm, pod: seen({ nodeName: 'n1', status: terminated(143) }), elapsed: { podEnded: 6 } },
    [`updateStatus Failed ${reason}: ${message}`, `recordEvent Warning ${reason}: ${message}`],
  ]),
  [
    'unless its pod was evicted',
    {
      vm: alive,
      pod: seen({ status: { ...terminated(143), reason: 'Evicted', message: 'The node was low on memory.' } }),
      elapsed: { podEnded: 6 },
    },
    [
      'updateStatus Failed Evicted: The node was low on memory.',
      'recordEvent Warning Evicted: The node was low on memory.',
    ],
  ],
  [
    'or the VM has no such probe',
    { vm: running, pod: seen({ nodeName: 'n1', status: terminated(143) }), elapsed: { podEnded: 6 } },
    [
      'updateStatus Failed Error: the launcher exited with code 143',
      'recordEvent Warning Error: the launcher exited with code 143',
    ],
  ],
  [
    'what is killed logs nothing about it',
    {
      vm: running,
      pod: seen({ nodeName: 'n1', status: terminated(137, { message: '{"level":"info","msg":"ready"}' }) }),
      elapsed: { podEnded: 6 },
    },
    [
      'updateStatus Failed Error: the launcher was killed with SIGKILL',
      'recordEvent Warning Error: the launcher was killed with SIGKILL',
    ],
  ],
  [
    'what a user writes as the reason with pods/exec cannot change the terminal of an operator',
    {
      vm: running,
      pod: seen({ nodeName: 'n1', status: terminated(1, { message: '\u001b]0;owned\u0007\u202egood' }) }),
      elapsed: { podEnded: 6 },
    },
    [
      'updateStatus Failed Error: \ufffd]0;owned\ufffd\ufffdgood',
      'recordEvent Warning Error: \ufffd]0;owned\ufffd\ufffdgood',
    ],
  ],
  [
    'the end of its log is the reason of the failure',
    {
      vm: running,
      pod: seen({ nodeName: 'n1', status: terminated(1, { message: noSpace }) }),
      elapsed: { podEnded: 6 },
    },
    [
      'updateStatus Failed Error: cannot start: ENOSPC: no space left on device',
      'recordEvent Warning Error: cannot start: ENOSPC: no space left on device',
    ],
  ],
  [
    'reports a pod that was killed for memory, with its limit',
    { vm: running, pod: seen({ status: terminated(137, { reason: 'OOMKilled' }) }), elapsed: { podEnded: 6 } },
    [`updateStatus Failed OOMKilled: ${outOfMemory}`, `recordEvent Warning OOMKilled: ${outOfMemory}`],
  ],
  [
    'an evicted pod states why',
    {
      vm: running,
      pod: seen({ status: { phase: 'Failed', reason: 'Evicted', message: 'The node was low on memory.' } }),
      elapsed: { podEnded: 6 },
    },
    [
      'updateStatus Failed Evicted: The node was low on memory.',
      'recordEvent Warning Evicted: The node was low on memory.',
    ],
  ],
  [
    'a pod that failed before hand-over is concluded from at once',
    { pod: seen({ status: { phase: 'Failed' } }) },
    [
      `updateStatus Failed PodFailed: the launcher pod ${name} failed`,
      `recordEvent Warning PodFailed: the launcher pod ${name} failed`,
    ],
  ],
  [
    'a finished VM keeps its finished pod, for its logs',
    { vm: withStatus(inPhase('Succeeded', 999)), pod: seen({ status: terminated(0) }), elapsed: { finished: 999 } },
    [],
  ],
  ['and does not miss it', { vm: withStatus(inPhase('Succeeded', 999)) }, []],
  [
    'a launcher may take a minute to end after its VM',
    { vm: withStatus(inPhase('Failed')), pod: seen({ nodeName: 'n1' }), elapsed: { finished: 20 } },
    ['requeueAfter 40000'],
  ],
  [
    'and is then ended',
    { vm: withStatus(inPhase('Failed')), pod: seen({ nodeName: 'n1' }), elapsed: { finished: 61 } },
    [`deletePod ${name}`],
  ],
  [
    'a VM that is deleted before it had a pod is removed',
    { vm: storedVm({ metadata: deleting }) },
    ['removeFinalizer'],
  ],
  ['does nothing without the finalizer', { vm: storedVm({ metadata: { ...deleting, finalizers: ['other'] } }) }, []],
  [
    'the pod of a deleted VM is deleted first',
    { vm: withStatus(inPhase('Running'), { metadata: deleting }), pod: seen({ nodeName: 'n1' }) },
    [`deletePod ${name}`, `recordEvent Normal SuccessfulDelete: Deleted pod ${name}`],
  ],
  [
    'and awaited',
    {
      vm: storedVm({ metadata: deleting }),
      pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(-600), deletionGracePeriodSeconds: 50 } }),
      elapsed: { podDeleting: 20 },
    },
    ['requeueAfter 90000'],
  ],
  [
    'and reported if it does not end',
    {
      vm: withStatus(inPhase('Running'), { metadata: deleting }),
      pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(61) } }),
      elapsed: { podDeleting: 121 },
    },
    [`updateStatus Running PodEnded False PodStuckTerminating: ${stuck}`],
  ],
  [
    'on a node that does not respond, the VM also becomes Unknown',
    {
      vm: withStatus(inPhase('Running'), { metadata: deleting }),
      pod: seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(61) } }),
      elapsed: { podDeleting: 121 },
      node: 'silent',
    },
    [`updateStatus Unknown NodeUnreachable: ${unreachable}`, `recordEvent Warning NodeUnreachable: ${unreachable}`],
  ],
  [
    'a deleted VM that was never completed is not completed',
    {
      vm: storedVm({ metadata: { ...deleting, annotations: {} } }),
      completion: { kind: 'done', presets: [] },
    },
    ['removeFinalizer'],
  ],
  [
    'a deleted VM whose pod the garbage collector orphaned waits for it, and deletes it',
    { vm: withStatus(inPhase('Running'), { metadata: deleting }), pod: orphaned({ nodeName: 'n1' }) },
    [`deletePod ${name}`, `recordEvent Normal SuccessfulDelete: Deleted pod ${name}`],
  ],
  [
    'also when nothing but the status names it',
    {
      vm: withStatus(inPhase('Running'), { metadata: deleting }),
      pod: seen({ nodeName: 'n1', metadata: { labels: {}, ownerReferences: [] } }),
    },
    [`deletePod ${name}`, `recordEvent Normal SuccessfulDelete: Deleted pod ${name}`],
  ],
  [
    'a deleted VM waits for a copy of its pod by another name',
    { vm: storedVm({ metadata: deleting }), copies: [copy] },
    [`deletePod ${name}-copy`, `recordEvent Normal SuccessfulDelete: Deleted pod ${name}-copy`],
  ],
  [
    'a deleted VM whose pod was force-deleted waits for its handler',
    { vm: withStatus(inPhase('Running'), { metadata: deleting }) },
    [`updateStatus Running PodEnded Unknown AwaitingHandler: ${unconfirmed}`, 'requeueAfter 120000'],
  ],
  [
    'without limit while its handler sees the launcher',
    { vm: { ...present, metadata: { ...present.metadata, ...deleting } }, elapsed: { podMissing: 86_400 } },
    [],
  ],
  [
    'and is removed when the handler confirms the end',
    { vm: { ...confirmed, metadata: { ...confirmed.metadata, ...deleting } } },
    ['removeFinalizer'],
  ],
  [
    'or when the controller observed the end',
    { vm: withStatus(inPhase('Failed'), { metadata: deleting }), isEndObserved: true },
    ['removeFinalizer'],
  ],
  [
    'that its guest has ended is what its launcher claims: waits for the handler too',
    { vm: withStatus(inPhase('Succeeded'), { metadata: deleting }) },
    [`updateStatus Succeeded PodEnded Unknown AwaitingHandler: ${unconfirmed}`, 'requeueAfter 120000'],
  ],
  [
    'also when it claims that while its handler sees it',
    {
      vm: withStatus({ ...present.status, phase: 'Succeeded' }, { metadata: deleting }),
      elapsed: { podMissing: 86_400 },
    },
    [],
  ],
  [
    'until the handler confirms the end of a launcher that claimed it',
    { vm: withStatus({ ...confirmed.status, phase: 'Succeeded' }, { metadata: deleting }) },
    ['removeFinalizer'],
  ],
  [
    'a deleted VM waits until no pod serves it a claim',
    {
      vm: storedVm({
        metadata: deleting,
        status: { phase: 'Failed', attachmentPods: [{ name: 'a', claimName: 'a', podName: 'p', podUID: 'u' }] },
      }),
    },
    ['requeueAfter 60000'],
  ],
  [
    'a deleted VM reports a pod that still serves it a claim',
    {
      vm: storedVm({
        metadata: deleting,
        status: {
          phase: 'Failed',
          nodeName: 'n1',
          attachmentPods: [{ name: 'a', claimName: 'a', podName: 'p', podUID: 'u' }],
        },
      }),
      isEndObserved: true,
      elapsed: { volumePods: 61 },
    },
    [
      `updateStatus Failed VolumePodsEnded False PodStuckTerminating: ${volumeStuck}`,
      `recordEvent Warning PodStuckTerminating: ${volumeStuck}`,
    ],
  ],
  [
    'a deleted VM does not wait for a foreign pod',
    { vm: storedVm({ metadata: deleting }), pod: foreign },
    ['removeFinalizer'],
  ],
]

const rejections: typeof table = [
  [
    'a pod that the kubelet rejected has run nothing: the VM gives it up',
    { vm: withStatus(inPhase('Scheduled')), pod: rejected() },
    [
      `updateStatus Pending PodRejected: ${wasRejected}`,
      `recordEvent Warning PodRejected: ${wasRejected}`,
      'requeueAfter 5000',
    ],
  ],
  [
    'whatever the reason: the labels of the node, its pressure, or other pods on it',
    { vm: withStatus(inPhase('Scheduled')), pod: rejected({ reason: 'NodeAffinity', message: unfitted }) },
    [
      `updateStatus Pending PodRejected: ${wasUnfitted}`,
      `recordEvent Warning PodRejected: ${wasUnfitted}`,
      'requeueAfter 5000',
    ],
  ],
  [
    'but not a pod that was evicted, which has run',
    {
      vm: withStatus(inPhase('Scheduled')),
      pod: rejected({ reason: 'Evicted', message: 'The node was low on resource: memory.' }),
      elapsed: { podEnded: 5 },
    },
    [
      'updateStatus Failed Evicted: The node was low on resource: memory.',
      'recordEvent Warning Evicted: The node was low on resource: memory.',
    ],
  ],
  [
    'also before the VM was handed over',
    { pod: rejected() },
    [
      `updateStatus Pending PodRejected: ${wasRejected}`,
      `recordEvent Warning PodRejected: ${wasRejected}`,
      'requeueAfter 5000',
    ],
  ],
  [
    'a rejected pod remains for a moment',
    { vm: rejecting, pod: rejected(), elapsed: { podEnded: 2 } },
    ['requeueAfter 3000'],
  ],
  ['then it is deleted', { vm: rejecting, pod: rejected(), elapsed: { podEnded: 5 } }, [`deletePod ${name}`]],
  [
    'a pod that is rejected again at once remains as long',
    { vm: rejecting, pod: rejected(), elapsed: { waiting: 8, rejected: 8, podEnded: 1 } },
    ['requeueAfter 4000'],
  ],
  [
    'the delay grows with the time for which pods are rejected',
    {
      vm: withStatus({
        ...inPhase('Scheduled'),
        phaseTransitionTimestamps: (['Pending', 'Scheduled', 'Pending', 'Scheduled'] as const).map((phase) => ({
          phase,
          time: at(4),
        })),
      }),
      pod: rejected(),
      elapsed: { rejected: 60 },
    },
    [
      `updateStatus Pending PodRejected: ${wasRejected.replace('5 s', '30 s')}`,
      `recordEvent Warning PodRejected: ${wasRejected.replace('5 s', '30 s')}`,
      'requeueAfter 30000',
    ],
  ],
  [
    'up to five minutes',
    {
      vm: withStatus({ ...rejecting.status, message: wasRejected.replace('5 s', '300 s') }),
      pod: rejected(),
      elapsed: { rejected: 3600, podEnded: 299 },
    },
    [
      `updateStatus Pending PodRejected: ${wasRejected.replace('5 s', '300 s')}`,
      `recordEvent Warning PodRejected: ${wasRejected.replace('5 s', '300 s')}`,
      'requeueAfter 1000',
    ],
  ],
  [
    'and the VM gets another one',
    { vm: rejecting },
    [`createPod ${name}`, `recordEvent Normal SuccessfulCreate: Created pod ${name}`],
  ],
  [
    'a VM that has run fails when its pod is rejected after a restart of the node',
    { vm: running, pod: rejected(), elapsed: { podEnded: 5 } },
    [
      `updateStatus Failed UnexpectedAdmissionError: ${rejection}`,
      `recordEvent Warning UnexpectedAdmissionError: ${rejection}`,
    ],
  ],
  [
    'so does a VM whose pod has a container that ended',
    {
      vm: withStatus(inPhase('Scheduled')),
      pod: rejected(terminated(137, { reason: 'ContainerStatusUnknown' })),
      elapsed: { podEnded: 5 },
    },
    [
      `updateStatus Failed UnexpectedAdmissionError: ${rejection}`,
      `recordEvent Warning UnexpectedAdmissionError: ${rejection}`,
    ],
  ],
  [
    'so does a VM whose launcher the handler has seen',
    {
      vm: withStatus({
        ...inPhase('Scheduled'),
        conditions: [
          { type: 'Synchronized', status: 'True', reason: 'Synchronized', message: '', lastTransitionTime: at(9) },
        ],
      }),
      pod: rejected(),
      elapsed: { podEnded: 5 },
    },
    [
      `updateStatus Failed UnexpectedAdmissionError: ${rejection}`,
      `recordEvent Warning UnexpectedAdmissionError: ${rejection}`,
    ],
  ],
]

describe('plan', () => {
  it.each(rejections)('%s', (_sentence, over, actions) => {
    expect(plan(observed(over)).map(line)).toEqual(actions)
  })

  it('a VM whose pod was rejected names neither the pod nor the node', () => {
    const [action] = plan(observed({ vm: withStatus(inPhase('Scheduled')), pod: rejected() }))
    expect(action?.do === 'updateStatus' && [action.status.podUID, action.status.nodeName]).toEqual([
      undefined,
      undefined,
    ])
  })

  it.each(table)('%s', (_sentence, over, actions) => {
    expect(plan(observed(over)).map(line)).toEqual(actions)
  })

  const writes = table.flatMap(([sentence, over]) => {
    const written = plan(observed(over)).find((action) => action.do === 'updateStatus')
    return written && written.status.phase !== 'Scheduled' ? [{ sentence, over, status: written.status }] : []
  })

  it.each(writes)('$sentence; an unchanged status is not written again', ({ over, status }) => {
    const before = observed(over)
    const again = plan({ ...before, vm: { ...before.vm, status }, now: at(-1) })
    expect(again.filter(({ do: what }) => what === 'updateStatus' || what === 'recordEvent')).toEqual([])
  })

  it('the hand-over is one write', () => {
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
      do: 'updateStatus',
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
          condition('Synchronized', 'False', 'AwaitingHandler', 'the handler has not seen the VM yet'),
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
    const vm = storedVm({ spec: { domain: { ...fresh.spec.domain, memory } } })
    expect(plan(observed({ vm, pod: seen({ nodeName: 'n1' }) }))[0]).toMatchObject({ status: { memory: shown } })
  })

  it.each([
    ['kvm', 'type: kvm requires a node with /dev/kvm; type: qemu runs anywhere, more slowly'],
    ['vhost-vsock', 'vsock requires a node with /dev/vhost-vsock, of the kernel module vhost_vsock'],
  ])('explains the extended resource of %s', (name, words) => {
    const counted = `1 Insufficient devices.virtset.io/${name}.`
    const status = unschedulable(counted)
    const message = `${counted} (${words})`
    expect(plan(observed({ pod: seen({ status }) }))[0]).toMatchObject({ status: { message } })
  })

  it('reports a refused pod, and retries', () => {
    expect(refusedToCreate(observed({}), 'exceeded quota').map(line)).toEqual([
      'recordEvent Warning FailedCreate: exceeded quota',
      'updateStatus Pending FailedCreate: exceeded quota',
      'requeueAfter 5000',
    ])
  })

  it('shortens a refusal, which quotes what the user wrote, and is unchanged the next time', () => {
    const [, update] = refusedToCreate(observed({}), 'x'.repeat(2 ** 20))
    const message = `${'x'.repeat(4093)}…`
    expect(update).toMatchObject({ do: 'updateStatus', status: { message } })
    if (update?.do !== 'updateStatus') throw new Error('no status')
    expect(update.status.conditions?.find(({ type }) => type === 'PodScheduled')?.message).toBe(message)
    const again = refusedToCreate(observed({ vm: withStatus(update.status) }), 'x'.repeat(2 ** 20))
    expect(again.map(({ do: action }) => action)).toEqual(['recordEvent', 'requeueAfter'])
  })

  it('names the volume whose image cannot be pulled', () => {
    const volumes = [{ name: 'root', image: { reference: 'debian:13' } }]
    const vm = withStatus({ ...inPhase('Scheduled'), nodeName: 'n1', podUID }, { spec: { ...fresh.spec, volumes } })
    const status = waiting('ImagePullBackOff', 'Back-off pulling image "debian:13"')
    expect(plan(observed({ vm, pod: seen({ nodeName: 'n1', status }) })).map(line)).toEqual([
      'updateStatus Scheduled Ready False ImagePullBackOff: volume "root": Back-off pulling image "debian:13"',
      'recordEvent Warning ImagePullBackOff: volume "root": Back-off pulling image "debian:13"',
    ])
  })

  it('explains a cluster without image volumes', () => {
    const vm = storedVm({ spec: { ...fresh.spec, volumes: [{ name: 'root', image: { reference: 'debian:13' } }] } })
    const refused = 'spec.volumes[5]: Required value: must specify a volume type'
    expect(refusedToCreate(observed({ vm }), refused)[1]).toMatchObject({
      status: { phase: 'Pending', reason: 'FailedCreate', message: expect.stringContaining('Kubernetes 1.35') },
    })
  })

  it('a pod that does not end has a condition of its own: the handler sets Ready', () => {
    const ready = {
      type: 'Ready',
      status: 'False',
      reason: 'GuestPaused',
      message: '',
      lastTransitionTime: at(90),
    } as const
    const vm = withStatus({ ...inPhase('Running'), conditions: [ready] }, { metadata: deleting })
    const pod = seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(61) } })
    const conditions = plan(observed({ vm, pod, elapsed: { podDeleting: 121 } })).map(
      (action) => 'status' in action && action.status.conditions,
    )
    expect(conditions).toEqual([[ready, expect.objectContaining({ type: 'PodEnded', status: 'False' })]])
  })

  const podGrace = (podGracePeriodSeconds?: number, over: Parameters<typeof withStatus>[1] = {}) =>
    withStatus(
      { ...inPhase('Running'), ...(podGracePeriodSeconds === undefined ? {} : { podGracePeriodSeconds }) },
      over,
    )
  const ending = (deletionGracePeriodSeconds: number) =>
    seen({ nodeName: 'n1', metadata: { deletionTimestamp: at(0), deletionGracePeriodSeconds } })
  it.each<[string, Variation, string[]]>([
    ['is stored before the pod is deleted with it', { vm: podGrace(undefined, stopped('86400')), pod: own }, ['86430']],
    ['is not stored again', { vm: podGrace(86_430, stopped('86400')), pod: own }, []],
    ['is stored for a deletion by others, with its reason', { vm: podGrace(), pod: ending(3600) }, ['3600']],
    ['has a limit', { vm: podGrace(), pod: ending(2 ** 40) }, [`${2 ** 31 - 1 + 30}`]],
    ['is not lowered', { vm: podGrace(86_430, stopped('100')), pod: ending(130) }, []],
    ['is not stored if it is that of the spec', { vm: podGrace(undefined, stopped('0')), pod: ending(60) }, []],
    ['is not stored if it is shorter', { vm: podGrace(undefined, stopped('0')), pod: own }, []],
    [
      'is that of its own pod',
      {
        vm: podGrace(),
        pod: own,
        copies: [seen({ metadata: { ...copy.metadata, deletionGracePeriodSeconds: 3600 } })],
      },
      [],
    ],
  ])('a grace period of the pod that is longer than that of its spec %s', (_, over, expected) => {
    const actions = plan(observed(over))
    const written = actions.flatMap((action) =>
      action.do === 'updateStatus' ? [`${action.status.podGracePeriodSeconds}`] : [],
    )
    expect(written).toEqual(expected)
    // First, or nowhere.
    expect(actions.findIndex((action) => action.do === 'updateStatus')).toBe(expected.length - 1)
  })

  const relabelled = withStatus(inPhase('Running'), { metadata: { labels: { app: 'a' } } })
  const scheduling = { ...relabelled, status: inPhase('Scheduled') }
  it.each<[string, Variation, readonly string[]]>([
    ['a relabelled VM that runs relabels its pod', { vm: relabelled, pod: own }, ['relabelPod']],
    ['so does one that starts', { vm: scheduling, pod: own }, ['relabelPod']],
    ['a VM with the labels of its pod does not', { vm: running, pod: own }, []],
    ['one whose pod has ended does not', { vm: relabelled, pod: { ...own, status: { phase: 'Succeeded' } } }, []],
    ['one whose pod ends does not', { vm: relabelled, pod: seen({ nodeName: 'n1', metadata: deleting }) }, []],
    [
      'one that ends does not',
      { vm: { ...relabelled, metadata: { ...relabelled.metadata, ...deleting } }, pod: own },
      [],
    ],
    ['one that has finished does not', { vm: { ...relabelled, status: inPhase('Succeeded') }, pod: own }, []],
    ['one that has not taken the pod does not', { vm: { ...relabelled, status: {} }, pod: own }, []],
  ])('%s', (_sentence, over, expected) => {
    expect(
      plan(observed(over))
        .map(line)
        .filter((one) => one === 'relabelPod'),
    ).toEqual(expected)
  })

  it('never creates a pod for a VM whose status names one', () => {
    const vms = [running, withStatus({ podUID }), withStatus(inPhase('Failed')), storedVm({ metadata: deleting })]
    const pods = [
      undefined,
      seen(),
      foreign,
      seen({ nodeName: 'n1', status: terminated(1) }),
      seen({ metadata: { uid: 'second' } }),
    ]
    const completions = [
      { kind: 'done', presets: [] },
      { kind: 'todo', vm: fresh },
      { kind: 'refused', causes: [] },
    ] as const
    for (const vm of vms) {
      for (const pod of pods) {
        for (const completion of completions) {
          const actions = plan(observed({ vm, pod, completion }))
          expect(actions.some(({ do: what }) => what === 'createPod' || what === 'completeSpec')).toBe(false)
        }
      }
    }
  })

  it('never releases a VM that has a pod', () => {
    const vm = storedVm({ metadata: { ...deleting, annotations: { [completedByAnnotation]: '' } } })
    for (const pod of [seen(), seen({ status: terminated(0) }), seen({ metadata: { deletionTimestamp: at(999) } })]) {
      expect(plan(observed({ vm, pod })).some(({ do: what }) => what === 'removeFinalizer')).toBe(false)
    }
  })
})

import { expect, test } from 'vitest'
import type { Probes } from '../api/probe.ts'
import type { FreezeRequest, FreezeState, Phase, VirtualMachine } from '../api/virtual-machine.ts'
import type { DomainReport, Json, JsonObject } from '../runtime/launcher-api.ts'
import { withoutLargeParts } from './domain-size.ts'
import { plan, type Action, type Observation } from './plan.ts'
import { parserOf } from '../runtime/partial-json.ts'
import { cachedVms, slimVm } from './slim-vm.ts'
import { isChanged, podEndedStatus, statusOf } from './status.ts'

type Interface = NonNullable<NonNullable<VirtualMachine['spec']['domain']['devices']>['interfaces']>[number]

const now = '2026-01-02T03:04:05.000Z'
const seconds = (offset: number) => new Date(Date.parse(now) + offset * 1000).toISOString()

interface Given extends Probes {
  phase: Phase
  isDeleting?: boolean
  generation?: number
  grace?: number
  requestedGrace?: string
}

function vmWith({
  phase,
  isDeleting = false,
  generation = 1,
  grace,
  requestedGrace,
  livenessProbe,
  startupProbe,
}: Given): VirtualMachine {
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: {
      name: 'vm',
      namespace: 'default',
      uid: 'vm-1',
      generation,
      // An hour off: no decision depends on the difference between the API server's clock and the node's.
      ...(isDeleting ? { deletionTimestamp: seconds(-3600) } : {}),
      ...(requestedGrace === undefined ? {} : { annotations: { 'virtset.io/grace-period-seconds': requestedGrace } }),
    },
    spec: {
      domain: {},
      ...(grace === undefined ? {} : { terminationGracePeriodSeconds: grace }),
      ...(livenessProbe === undefined ? {} : { livenessProbe }),
      ...(startupProbe === undefined ? {} : { startupProbe }),
    },
    status: { phase, phaseTransitionTimestamps: [{ phase: 'Scheduled', time: seconds(-3600) }] },
  }
}

const awaited = (given: Given): VirtualMachine => {
  const one = vmWith(given)
  const question = {
    type: 'PodEnded',
    status: 'Unknown',
    reason: 'AwaitingHandler',
    message: '',
    lastTransitionTime: '',
  }
  return { ...one, status: { ...one.status, conditions: [{ ...question, status: 'Unknown' }] } }
}

test.each<[string, Given, boolean, string]>([
  ['its guest ran', { phase: 'Running' }, false, 'Running PodEnded=True:LauncherAbsent'],
  ['it had not started', { phase: 'Scheduled', isDeleting: true }, false, 'Scheduled PodEnded=True:LauncherAbsent'],
  ['it said that its guest had ended', { phase: 'Succeeded' }, false, 'Succeeded PodEnded=True:LauncherAbsent'],
  ['its guest runs', { phase: 'Running' }, true, 'Running PodEnded=False:LauncherPresent'],
  ['it has not started', { phase: 'Scheduled' }, true, 'Scheduled PodEnded=False:LauncherPresent'],
  ['it says that its guest has ended', { phase: 'Succeeded' }, true, 'Succeeded PodEnded=False:LauncherPresent'],
])(
  'answers the controller that awaits the end of a launcher by its volume alone: %s',
  (_, given, hasVolume, expected) => {
    const vm = awaited(given)
    const status = podEndedStatus(vm, hasVolume, now)
    expect(summaries([{ do: 'updateStatus', status }])).toEqual([`updateStatus ${expected}`])
    expect(isChanged(vm, status)).toBe(true)
    expect(isChanged({ ...vm, status }, podEndedStatus({ ...vm, status }, hasVolume, seconds(9)))).toBe(false)
  },
)

test.each([
  ['is awaited', (vm: VirtualMachine) => vm],
  ['is denied', (vm: VirtualMachine) => ({ ...vm, status: podEndedStatus(vm, true, now) })],
  ['is confirmed', (vm: VirtualMachine) => ({ ...vm, status: podEndedStatus(vm, false, now) })],
])('starts no guest in a launcher whose end %s', (_, asked) => {
  expect(plan(asked(awaited({ phase: 'Scheduled' })), reported(report('Waiting')), now)).toEqual([])
})

function report(phase: DomainReport['phase'], more: Partial<DomainReport> = {}): DomainReport {
  return { vmUID: 'vm-1', phase, reason: 'booted', observedAt: seconds(0), ...more }
}

const reported = (one: DomainReport): Observation & { kind: 'report' } => ({ kind: 'report', report: one })

/** The actions in short; of a status, the phase and the conditions' reasons. */
function summaries(actions: Action[]): string[] {
  return actions.map((action) => {
    switch (action.do) {
      case 'updateStatus':
        return `updateStatus ${action.status.phase} ${action.status.conditions?.map((c) => `${c.type}=${c.status}:${c.reason}`).join(' ')}`
      case 'recordEvent':
        return `recordEvent ${action.type} ${action.reason}`
      case 'requeueAfter':
        return `requeueAfter ${action.afterMs}`
      case 'freezeGuest':
      case 'thawGuest':
        return `${action.do} ${action.id}`
      case 'shutDownGuest':
        return `shutDownGuest ${action.gracePeriodSeconds}`
      default:
        return action.do
    }
  })
}

const running = 'updateStatus Running Ready=True:GuestRunning Synchronized=True:DomainDefined'
const failed = 'updateStatus Failed Ready=False:GuestStopped Synchronized=True:DomainDefined'
const succeeded = 'updateStatus Succeeded Ready=False:GuestStopped Synchronized=True:DomainDefined'
const lost = [
  'updateStatus Failed Synchronized=False:DomainLost Ready=False:DomainLost',
  'recordEvent Warning DomainLost',
  'releaseLauncher',
]
const rows: [string, Given, Observation, string[]][] = [
  ['polls for the socket', { phase: 'Scheduled' }, { kind: 'absent', absentForMs: 0 }, ['requeueAfter 50']],
  [
    'polls less often for a pod that pulls its image',
    { phase: 'Scheduled' },
    { kind: 'absent', absentForMs: 20_000 },
    ['requeueAfter 1000'],
  ],
  [
    'polls every two seconds at least',
    { phase: 'Scheduled' },
    { kind: 'absent', absentForMs: 900_000 },
    ['requeueAfter 2000'],
  ],
  [
    'leaves a pod that has just ended to the controller',
    { phase: 'Running' },
    { kind: 'absent', absentForMs: 29_999 },
    ['requeueAfter 7499.75'],
  ],
  [
    'does not let a VM whose launcher is gone stay Ready',
    { phase: 'Running' },
    { kind: 'absent', absentForMs: 30_000 },
    ['updateStatus Running Synchronized=Unknown:LauncherAbsent Ready=Unknown:LauncherAbsent', 'requeueAfter 7500'],
  ],
  ['hands the VM over', { phase: 'Scheduled' }, reported(report('Waiting')), ['startGuest']],
  [
    'does not start a VM that is being deleted',
    { phase: 'Scheduled', isDeleting: true },
    reported(report('Waiting')),
    [],
  ],
  [
    'never starts a second QEMU after the launcher lost the first',
    { phase: 'Running' },
    reported(report('Waiting')),
    lost,
  ],
  ['nor on a node that was silent for a while', { phase: 'Unknown' }, reported(report('Waiting')), lost],
  ['sets Running again on a node that was silent', { phase: 'Unknown' }, reported(report('Running')), [running]],
  [
    'reports a running guest',
    { phase: 'Scheduled' },
    reported(report('Running')),
    [running, 'recordEvent Normal Started'],
  ],
  [
    'reports a paused guest',
    { phase: 'Running' },
    reported(report('Paused', { reason: 'ioerror' })),
    ['updateStatus Running Ready=False:GuestPaused Synchronized=True:DomainDefined'],
  ],
  [
    'reports a QEMU that does not respond',
    { phase: 'Running' },
    reported(report('Running', { unresponsiveSince: seconds(-20) })),
    ['updateStatus Running Ready=False:QEMUUnresponsive Synchronized=True:DomainDefined'],
  ],
  [
    'requests the media of a later generation',
    { phase: 'Running', generation: 2 },
    reported(report('Running', { generation: 1 })),
    ['updateStatus Running Ready=True:GuestRunning Synchronized=False:ChangingMedia', 'changeMedia'],
  ],
  [
    'reports a medium that the guest does not accept',
    { phase: 'Running', generation: 2 },
    reported(report('Running', { generation: 2, mediaFailure: 'sda: the tray is locked' })),
    ['updateStatus Running Ready=True:GuestRunning Synchronized=False:MediumRefused'],
  ],
  [
    'requests no media of a guest that is being deleted, which is a later generation too',
    { phase: 'Running', isDeleting: true, generation: 3, grace: 7 },
    reported(report('Running', { generation: 2 })),
    [running, 'shutDownGuest 7', 'recordEvent Normal ShuttingDown'],
  ],
  [
    'reports file systems that the guest waits for without end',
    { phase: 'Running' },
    reported(report('Running', { lostFilesystems: ['data'] })),
    ['updateStatus Running Ready=False:FilesystemLost Synchronized=True:DomainDefined'],
  ],
  [
    'shuts down with the grace period of the stop request',
    { phase: 'Running', isDeleting: true, grace: 7, requestedGrace: '3' },
    reported(report('Running')),
    [running, 'shutDownGuest 3', 'recordEvent Normal ShuttingDown'],
  ],
  [
    'shortens the grace period that the kubelet gave',
    { phase: 'Running', isDeleting: true, grace: 30, requestedGrace: '1' },
    reported(report('ShuttingDown', { deadline: seconds(29), gracePeriodSeconds: 30 })),
    ['shutDownGuest 1', 'recordEvent Normal ShuttingDown'],
  ],
  [
    'leaves the grace period of an older launcher as it is',
    { phase: 'Running', isDeleting: true, grace: 30, requestedGrace: '1' },
    reported(report('ShuttingDown', { deadline: seconds(29) })),
    [],
  ],
  [
    'shuts down with the grace period of the spec',
    { phase: 'Scheduled', isDeleting: true, grace: 7 },
    reported(report('Running')),
    [running, 'recordEvent Normal Started', 'shutDownGuest 7', 'recordEvent Normal ShuttingDown'],
  ],
  [
    'leaves the grace period to the launcher, whatever the clocks show',
    { phase: 'Running', isDeleting: true, grace: 20, requestedGrace: '20' },
    reported(report('ShuttingDown', { deadline: seconds(-3000), gracePeriodSeconds: 20 })),
    [],
  ],
  [
    'stores the end before it releases the launcher',
    { phase: 'Running' },
    reported(report('Gone', { reason: 'shutdown', exit: 'Succeeded' })),
    [succeeded, 'recordEvent Normal Stopped', 'releaseLauncher'],
  ],
  [
    'counts a deleted guest that exceeded its grace period as a success',
    { phase: 'Running', isDeleting: true },
    reported(report('Shutoff', { reason: 'destroyed', exit: 'Failed' })),
    [succeeded, 'recordEvent Warning GracePeriodExceeded', 'recordEvent Normal Stopped', 'releaseLauncher'],
  ],
  [
    'counts a guest that was destroyed without a deletion as a failure',
    { phase: 'Running' },
    reported(report('Shutoff', { reason: 'destroyed', exit: 'Failed' })),
    [failed, 'recordEvent Warning GuestFailed', 'releaseLauncher'],
  ],
  [
    'reports the end of a guest whose pod was terminated as a disruption',
    { phase: 'Running' },
    reported(report('Shutoff', { reason: 'destroyed', exit: 'Failed', isTerminated: true })),
    [`${failed} DisruptionTarget=True:PodTerminated`, 'recordEvent Warning GuestFailed', 'releaseLauncher'],
  ],
  [
    'also if the guest powered off',
    { phase: 'Running' },
    reported(report('Shutoff', { reason: 'shutdown', exit: 'Succeeded', isTerminated: true })),
    [`${succeeded} DisruptionTarget=True:PodTerminated`, 'recordEvent Normal Stopped', 'releaseLauncher'],
  ],
  [
    'leaves the end of a guest with a liveness probe, which may have failed, to the controller',
    { phase: 'Running', livenessProbe: {} },
    reported(report('Shutoff', { reason: 'shutdown', exit: 'Succeeded', isTerminated: true })),
    ['releaseLauncher'],
  ],
  [
    'as that of a guest with a startup probe',
    { phase: 'Running', startupProbe: {} },
    reported(report('Shutoff', { reason: 'shutdown', exit: 'Succeeded', isTerminated: true })),
    ['releaseLauncher'],
  ],
  [
    'also while it starts',
    { phase: 'Scheduled', livenessProbe: {} },
    reported(report('Shutoff', { reason: 'startFailed', exit: 'Failed', isTerminated: true })),
    ['releaseLauncher'],
  ],
  [
    'unless the guest powered off by itself',
    { phase: 'Running', livenessProbe: {} },
    reported(report('Shutoff', { reason: 'shutdown', exit: 'Succeeded' })),
    [succeeded, 'recordEvent Normal Stopped', 'releaseLauncher'],
  ],
  [
    'or was deleted',
    { phase: 'Running', livenessProbe: {}, isDeleting: true },
    reported(report('Shutoff', { reason: 'shutdown', exit: 'Succeeded', isTerminated: true })),
    [succeeded, 'recordEvent Normal Stopped', 'releaseLauncher'],
  ],
  [
    'but not the end of a deleted VM, whose pod the controller deletes',
    { phase: 'Running', isDeleting: true },
    reported(report('Shutoff', { reason: 'shutdown', exit: 'Succeeded', isTerminated: true })),
    [succeeded, 'recordEvent Normal Stopped', 'releaseLauncher'],
  ],
  [
    'shows that a kubelet has the guest shut down, without an end',
    { phase: 'Running' },
    reported(report('ShuttingDown', { reason: 'booted', isTerminated: true })),
    ['updateStatus Running Ready=False:ShuttingDown Synchronized=True:DomainDefined'],
  ],
  [
    'counts a crash during the shutdown as a failure',
    { phase: 'Running', isDeleting: true },
    reported(report('Crashed', { reason: 'failed', exit: 'Failed', message: 'QEMU was killed' })),
    [failed, 'recordEvent Warning GuestFailed', 'releaseLauncher'],
  ],
  [
    'counts a crash as a failure',
    { phase: 'Running' },
    reported(report('Crashed', { reason: 'failed', exit: 'Failed', message: 'QEMU was killed' })),
    [failed, 'recordEvent Warning GuestFailed', 'releaseLauncher'],
  ],
  [
    'records that the kernel killed QEMU for memory',
    { phase: 'Running' },
    reported(report('Shutoff', { reason: 'OOMKilled', exit: 'Failed', message: 'memory ran out' })),
    [failed, 'recordEvent Warning OOMKilled', 'releaseLauncher'],
  ],
  [
    'releases the launcher once the end is stored',
    { phase: 'Failed' },
    reported(report('Crashed', { exit: 'Failed' })),
    ['releaseLauncher'],
  ],
  ['leaves a finished VM alone', { phase: 'Succeeded' }, { kind: 'absent', absentForMs: 60_000 }, []],
  [
    'fails a VM that libvirt refuses',
    { phase: 'Scheduled' },
    { kind: 'refused', reason: 'StartFailed', message: 'no such target', silentForMs: 0, launcherVersion: 1 },
    [
      'updateStatus Failed Synchronized=False:StartFailed Ready=False:StartFailed',
      'recordEvent Warning StartFailed',
      'releaseLauncher',
    ],
  ],
  [
    'polls while libvirtd restarts',
    { phase: 'Scheduled' },
    { kind: 'refused', reason: 'LibvirtUnavailable', message: 'restarting', silentForMs: 29_999, launcherVersion: 1 },
    ['requeueAfter 7499.75'],
  ],
  [
    'reports that libvirtd does not come back',
    { phase: 'Scheduled' },
    { kind: 'refused', reason: 'LibvirtUnavailable', message: 'restarting', silentForMs: 30_000, launcherVersion: 1 },
    [
      'updateStatus Scheduled Synchronized=Unknown:LibvirtUnavailable Ready=Unknown:LibvirtUnavailable',
      'requeueAfter 7500',
    ],
  ],
  [
    'does not touch the launcher of another VM',
    { phase: 'Scheduled' },
    { kind: 'refused', reason: 'OtherVirtualMachine', message: 'has vm-2', silentForMs: 0, launcherVersion: 1 },
    [
      'updateStatus Scheduled Synchronized=Unknown:OtherVirtualMachine Ready=Unknown:OtherVirtualMachine',
      'requeueAfter 10000',
    ],
  ],
  [
    'does not fail a VM that a launcher of another version does not understand',
    { phase: 'Scheduled' },
    { kind: 'refused', reason: 'BadRequest', message: 'no such field', silentForMs: 0, launcherVersion: 0 },
    [
      'updateStatus Scheduled Synchronized=Unknown:LauncherIncompatible Ready=Unknown:LauncherIncompatible',
      'recordEvent Warning LauncherIncompatible',
      'requeueAfter 1000',
    ],
  ],
  [
    'does not fail a running VM whose launcher does not understand a shutdown',
    { phase: 'Running', isDeleting: true },
    { kind: 'refused', reason: 'BadRequest', message: 'no such request', silentForMs: 60_000, launcherVersion: 2 },
    [
      'updateStatus Running Synchronized=Unknown:LauncherIncompatible Ready=Unknown:LauncherIncompatible',
      'recordEvent Warning LauncherIncompatible',
      'requeueAfter 30000',
    ],
  ],
  [
    'does not report a short silence',
    { phase: 'Running' },
    { kind: 'unreachable', message: 'refused', silentForMs: 20_000 },
    ['requeueAfter 5000'],
  ],
  [
    'reports a long silence as unknown, and does nothing else',
    { phase: 'Running', isDeleting: true },
    { kind: 'unreachable', message: 'refused', silentForMs: 30_000 },
    [
      'updateStatus Running Synchronized=Unknown:LauncherUnreachable Ready=Unknown:LauncherUnreachable',
      'requeueAfter 7500',
    ],
  ],
  [
    'does not report a start that has just begun',
    { phase: 'Scheduled' },
    { ...reported(report('Defined', { reason: 'starting' })), startingForMs: 4999 },
    ['requeueAfter 5000'],
  ],
  ...(['DownloadFailed', 'NoSpace'] as const).map((reason): (typeof rows)[number] => [
    `reports ${reason} at once`,
    { phase: 'Scheduled' },
    {
      ...reported(report('Defined', { reason: reason[0]?.toLowerCase() + reason.slice(1), message: 'status 404' })),
      startingForMs: 0,
    },
    [
      `updateStatus Scheduled Ready=False:${reason} Synchronized=Unknown:GuestStarting`,
      `recordEvent Warning ${reason}`,
      'requeueAfter 5000',
    ],
  ]),
  [
    'reports a slow start',
    { phase: 'Scheduled' },
    { ...reported(report('Defined', { reason: 'starting' })), startingForMs: 5000 },
    ['updateStatus Scheduled Ready=False:GuestStarting Synchronized=Unknown:GuestStarting', 'requeueAfter 5000'],
  ],
  ...(['DefineRefused', 'StartFailed', 'VolumeUnavailable'] as const).map((reason): (typeof rows)[number] => [
    `fails a VM whose accepted start ends with ${reason}`,
    { phase: 'Scheduled' },
    reported(report('Gone', { reason: reason[0]?.toLowerCase() + reason.slice(1), exit: 'Failed', message: 'no' })),
    [
      `updateStatus Failed Synchronized=False:${reason} Ready=False:${reason}`,
      `recordEvent Warning ${reason}`,
      'releaseLauncher',
    ],
  ]),
  [
    'reports a misbehaving launcher at once, and polls it less and less often',
    { phase: 'Running' },
    { kind: 'misbehaving', message: 'not JSON', silentForMs: 0 },
    [
      'updateStatus Running Synchronized=Unknown:LauncherMisbehaving Ready=Unknown:LauncherMisbehaving',
      'recordEvent Warning LauncherMisbehaving',
      'requeueAfter 1000',
    ],
  ],
  [
    'waits as long as a launcher has misbehaved',
    { phase: 'Running', isDeleting: true },
    { kind: 'misbehaving', message: 'not JSON', silentForMs: 8000 },
    [
      'updateStatus Running Synchronized=Unknown:LauncherMisbehaving Ready=Unknown:LauncherMisbehaving',
      'recordEvent Warning LauncherMisbehaving',
      'requeueAfter 8000',
    ],
  ],
  [
    'reports misbehaving events beside a valid response',
    { phase: 'Scheduled' },
    { ...reported(report('Running')), misbehavior: 'it sends too many events' },
    [
      'updateStatus Running Ready=True:GuestRunning Synchronized=Unknown:LauncherMisbehaving',
      'recordEvent Warning LauncherMisbehaving',
      'recordEvent Normal Started',
    ],
  ],
  [
    'polls a launcher that stays silent twice a minute',
    { phase: 'Running' },
    { kind: 'unreachable', message: 'refused', silentForMs: 3_600_000 },
    [
      'updateStatus Running Synchronized=Unknown:LauncherUnreachable Ready=Unknown:LauncherUnreachable',
      'requeueAfter 30000',
    ],
  ],
]

test.each(rows)('%s', (_, given, observation, expected) => {
  expect(summaries(plan(vmWith(given), observation, now))).toEqual(expected)
})

test.each<[string, Observation]>([
  ['misbehaves', { kind: 'misbehaving', message: 'not JSON', silentForMs: 60_000 }],
  [
    'is incompatible',
    { kind: 'refused', reason: 'BadRequest', message: 'no such field', silentForMs: 60_000, launcherVersion: 0 },
  ],
])('records once that a launcher %s', (_, observation) => {
  const before = vmWith({ phase: 'Running' })
  const [write] = plan(before, observation, now)
  if (write?.do !== 'updateStatus') throw new Error('the status was not updated')
  expect(summaries(plan({ ...before, status: write.status }, observation, now))).toEqual(['requeueAfter 30000'])
})

test('updates nothing that is stored already', () => {
  const before = vmWith({ phase: 'Scheduled' })
  const written = { ...before, status: statusOf(before, report('Running'), ['10.0.0.1'], now) }
  const later = seconds(60)
  expect(
    plan(
      written,
      { kind: 'report', report: report('Running', { observedAt: seconds(60) }), podIPs: ['10.0.0.1'] },
      later,
    ),
  ).toEqual([])
})

test('a domain that is stored already is unchanged, in whatever order its keys are', () => {
  const before = vmWith({ phase: 'Running' })
  const first = statusOf(before, report('Running', { domain: { type: 'qemu', name: 'vm' } }), ['10.0.0.1'], now)
  const metadata = { ...before.metadata, name: 'vm', uid: 'vm-1', resourceVersion: '7' }
  const cached = slimVm({ ...before, metadata, status: first })
  const again = report('Running', { domain: { name: 'vm', type: 'qemu' } })
  expect(plan(cached, { kind: 'report', report: again, podIPs: ['10.0.0.1'] }, now)).toEqual([])
  const other = { ...again, domain: { name: 'vm', type: 'kvm' } }
  expect(summaries(plan(cached, { kind: 'report', report: other, podIPs: ['10.0.0.1'] }, now))).toEqual([running])
})

test.each<[string, object, 'True' | 'False' | 'Pending' | undefined, string]>([
  ['without a probe', {}, undefined, 'True GuestRunning'],
  ['whose startup probe was not reported yet', { startupProbe: {} }, undefined, 'False StartupProbePending'],
  ['whose startup probe has not succeeded', { startupProbe: {} }, 'Pending', 'False StartupProbePending'],
  ['whose startup probe has succeeded', { startupProbe: {} }, 'True', 'True GuestRunning'],
  ['that has booted and is not ready', { startupProbe: {}, readinessProbe: {} }, 'False', 'False ProbeFailing'],
  ['with only a liveness probe', { livenessProbe: {} }, undefined, 'True GuestRunning'],
  ['whose probe was not reported yet', { readinessProbe: {} }, undefined, 'False ProbeFailing'],
  ['whose probe fails', { readinessProbe: {} }, 'False', 'False ProbeFailing'],
  ['whose probe succeeds', { readinessProbe: {} }, 'True', 'True GuestRunning'],
])('a running VM %s', (_, probe, result, expected) => {
  const vm = vmWith({ phase: 'Running' })
  const probed = { type: 'ProbeSucceeded', message: '', lastTransitionTime: '' }
  const reported = {
    status: result === 'True' ? 'True' : 'False',
    reason: result === 'Pending' ? 'StartupProbePending' : 'Any',
  } as const
  const conditions = result === undefined ? [] : [{ ...probed, ...reported }]
  const given = { ...vm, spec: { ...vm.spec, ...probe }, status: { ...vm.status, conditions } }
  const ready = (reported: DomainReport) =>
    statusOf(given, reported, [], now).conditions?.find(({ type }) => type === 'Ready')
  const { status, reason } = ready(report('Running')) ?? {}
  expect(`${status} ${reason}`).toBe(expected)
  expect(ready(report('Paused'))?.reason).toBe('GuestPaused')
})

const withInterfaces = (vm: VirtualMachine, ...interfaces: Interface[]): VirtualMachine => ({
  ...vm,
  spec: { ...vm.spec, domain: { devices: { interfaces } } },
})

test('a status has the live domain, its interfaces, and each transition once', () => {
  const domain = {
    type: 'qemu',
    devices: {
      interfaces: [
        { type: 'user', backend: { type: 'passt' }, mac: { address: '52:54:00:00:00:01' }, alias: { name: 'net0' } },
        { type: 'user' },
        7,
      ],
    },
  }
  const vm = withInterfaces(vmWith({ phase: 'Scheduled' }), { mac: { address: '52:54:00:00:00:01' } })
  const status = statusOf(vm, report('Running', { domain }), ['10.0.0.1'], now)
  expect(status).toEqual({
    phase: 'Running',
    podIP: '10.0.0.1',
    podIPs: [{ ip: '10.0.0.1' }],
    domain,
    interfaces: [{ name: 'net0', mac: '52:54:00:00:00:01', podInterface: 'eth0', ips: ['10.0.0.1'] }],
    phaseTransitionTimestamps: [
      { phase: 'Scheduled', time: seconds(-3600) },
      { phase: 'Running', time: seconds(0) },
    ],
    conditions: [
      {
        type: 'Ready',
        status: 'True',
        reason: 'GuestRunning',
        message: '',
        observedGeneration: 1,
        lastTransitionTime: seconds(0),
      },
      {
        type: 'Synchronized',
        status: 'True',
        reason: 'DomainDefined',
        message: '',
        observedGeneration: 1,
        lastTransitionTime: seconds(0),
      },
    ],
  })
})

test.each<[string, object, object]>([
  ['routed', { plugin: 'routed' }, { podInterface: 'eth0', ips: ['10.0.0.1'] }],
  ['with a translated address', { plugin: 'nat' }, { podInterface: 'eth0', ips: ['10.0.0.1'] }],
  ['in a network', { plugin: 'redirect', network: 'lab' }, { network: 'default/lab', podInterface: 'net1' }],
  [
    'in a network of another namespace',
    { plugin: 'x', network: 'infra/lab' },
    { network: 'infra/lab', podInterface: 'net1' },
  ],
  ['of another plugin', { plugin: 'x' }, {}],
])('the status of a tap %s', (_, tap, expected) => {
  const domain: JsonObject = { devices: { interfaces: [{ type: 'ethernet', target: { dev: 'tap1' } }] } }
  const vm = withInterfaces(vmWith({ phase: 'Scheduled' }), { target: { dev: 'tap1' } })
  const tapped = { ...vm, spec: { ...vm.spec, taps: [{ dev: 'tap1', plugin: '', ...tap }] } }
  const ips = tapped.spec.taps[0]?.plugin === 'nat' ? ['fd00::1', '10.0.0.1'] : ['10.0.0.1']
  expect(statusOf(tapped, report('Running', { domain }), ips, now).interfaces).toEqual([expected])
})

test('the addresses that plugins state are those of their taps, and remain known', () => {
  const mac = '52:54:00:00:00:01'
  const live = { mac: { address: mac }, target: { dev: 'tap1' } }
  const domain: JsonObject = { devices: { interfaces: [live, { target: { dev: 'tap2' } }] } }
  const vm = withInterfaces(vmWith({ phase: 'Scheduled' }), live, { target: { dev: 'tap2' } })
  const taps = [
    { dev: 'tap1', plugin: 'redirect', network: 'lab' },
    { dev: 'tap2', plugin: 'example' },
  ]
  const tapped = { ...vm, spec: { ...vm.spec, taps } }
  const tapIPs = new Map([
    ['tap1', ['198.18.0.5']],
    ['tap2', ['198.19.0.5']],
  ])
  const reported = report('Running', { domain })
  const first = statusOf(tapped, reported, ['10.0.0.1'], now, { tapIPs })
  const inLab = { mac, network: 'default/lab', podInterface: 'net1', ips: ['198.18.0.5'] }
  expect(first.interfaces).toEqual([inLab, { ips: ['198.19.0.5'] }])
  // Without a MAC address, nothing says that it is the same interface.
  expect(statusOf({ ...tapped, status: first }, reported, ['10.0.0.1'], now).interfaces).toEqual([inLab, {}])
  const gone = { tapIPs: new Map([['tap1', []]]) }
  const { ips: _ips, ...without } = inLab
  expect(statusOf({ ...tapped, status: first }, reported, [], now, gone).interfaces?.[0]).toEqual(without)
})

test('a status has each interface of the spec once, whatever the launcher reports', () => {
  const mac = { address: '52:54:00:00:00:01' }
  const taps = ['tap1', 'tap2'].map((dev) => ({ dev, plugin: 'redirect', network: 'lab' }))
  const given = withInterfaces(vmWith({ phase: 'Scheduled' }), { mac, target: { dev: 'tap1' } })
  const vm = { ...given, spec: { ...given.spec, taps } }
  const interfacesOf = (...interfaces: Json[]) =>
    statusOf(vm, report('Running', { domain: { devices: { interfaces } } }), ['10.0.0.1'], now).interfaces
  const passt = { backend: { type: 'passt' } }
  const items = Array.from({ length: 500 }, () => [{ target: { dev: 'tap1' } }, { mac, ...passt }, passt]).flat()
  const one = { mac: mac.address, network: 'default/lab', podInterface: 'net1' }
  expect(interfacesOf(...items)).toEqual([one])
  // The tap is that of the spec.
  expect(interfacesOf({ mac, target: { dev: 'tap2' } })).toEqual([one])
})

test('the status of a VM whose spec is too large for the cache has its interfaces', () => {
  const interfaces = ['52:54:00:00:00:01', '52:54:00:00:00:02'].map((address) => ({ mac: { address } }))
  const vm = withInterfaces(vmWith({ phase: 'Scheduled' }), ...interfaces)
  const large = { ...vm, spec: { domain: { ...vm.spec.domain, description: 'x'.repeat(20_000) } } }
  const metadata = { ...large.metadata, name: 'vm', uid: 'vm-1', resourceVersion: '1' }
  const read = parserOf(cachedVms.read)(Buffer.from(JSON.stringify({ ...large, metadata })))
  if (!cachedVms.accepts(read)) throw new Error('it is no object')
  const status = statusOf(slimVm(read), report('Running', { domain: { devices: { interfaces } } }), [], now)
  expect(status.interfaces).toEqual(interfaces.map(({ mac }) => ({ mac: mac.address })))
})

test('a disruption whose reason the controller knows stays as it is', () => {
  const known = {
    type: 'DisruptionTarget',
    status: 'True',
    reason: 'EvictionByEvictionAPI',
    message: 'the launcher pod was evicted',
    lastTransitionTime: seconds(-1),
  } as const
  const vm = vmWith({ phase: 'Running' })
  const evicted = { ...vm, status: { ...vm.status, conditions: [known] } }
  const ended = report('Shutoff', { reason: 'shutdown', exit: 'Succeeded', isTerminated: true })
  const status = statusOf(evicted, ended, [], now)
  expect(status.conditions?.filter(({ type }) => type === 'DisruptionTarget')).toEqual([known])
})

const agentCard = { alias: { name: 'net0' }, mac: { address: '52:54:00:AA:BB:01' }, backend: { type: 'passt' } }
const claimed = {
  agent: 'connected',
  guest: { hostname: 'linux', os: { id: 'debian' }, interfaces: [{ mac: '52:54:00:aa:bb:01', ips: ['192.168.0.9'] }] },
} as const

test('what the agent claims is shown as such, beside the addresses of the pod', () => {
  const domain: JsonObject = {
    devices: { interfaces: [agentCard, { alias: { name: 'net1' }, mac: { address: '52:54:00:aa:bb:02' } }] },
  }
  const agentless = { mac: { address: '52:54:00:aa:bb:02' } }
  const vm = withInterfaces(vmWith({ phase: 'Running' }), { mac: { address: '52:54:00:aa:bb:01' } }, agentless)
  const status = statusOf(vm, report('Running', { domain, ...claimed }), ['10.0.0.7'], now)
  expect(status.guest).toEqual({ hostname: 'linux', os: { id: 'debian' } })
  expect(status.interfaces).toEqual([
    {
      name: 'net0',
      mac: '52:54:00:AA:BB:01',
      podInterface: 'eth0',
      ips: ['10.0.0.7'],
      guestIPs: ['192.168.0.9'],
      infoSource: ['domain', 'guest-agent'],
    },
    { name: 'net1', mac: '52:54:00:aa:bb:02' },
  ])
  expect(status.podIP).toBe('10.0.0.7')
  expect(
    isChanged(
      { ...vm, status },
      statusOf({ ...vm, status }, report('Running', { domain, ...claimed }), ['10.0.0.7'], now),
    ),
  ).toBe(false)
  const gone = statusOf({ ...vm, status }, report('Running', { domain, agent: 'disconnected' }), ['10.0.0.7'], now)
  expect(gone.guest).toBe(undefined)
  expect(gone.interfaces?.[0]).not.toHaveProperty('guestIPs')
})

test.each<[DomainReport['agent'], DomainReport['exit'], string | undefined]>([
  [undefined, undefined, undefined],
  ['connected', undefined, 'True AgentConnected'],
  ['disconnected', undefined, 'False AgentDisconnected'],
  ['unresponsive', undefined, 'False AgentUnresponsive'],
  ['connected', 'Succeeded', 'False AgentDisconnected'],
  [undefined, 'Failed', undefined],
])('an agent that is %s, of a guest that has ended as %s, is the condition %s', (agent, exit, shown) => {
  const more = { ...(agent === undefined ? {} : { agent }), ...(exit === undefined ? {} : { exit }) }
  const status = statusOf(vmWith({ phase: 'Running' }), report(exit ? 'Shutoff' : 'Running', more), [], now)
  const condition = status.conditions?.find(({ type }) => type === 'AgentConnected')
  expect(condition && `${condition.status} ${condition.reason}`).toBe(shown)
})

test('a guest that has ended has no agent any more, also if its launcher does not report that', () => {
  const vm = vmWith({ phase: 'Running' })
  const running = statusOf(vm, report('Running', claimed), [], now)
  const ended = statusOf({ ...vm, status: running }, report('Gone', { exit: 'Failed' }), [], now)
  expect(ended.conditions?.find(({ type }) => type === 'AgentConnected')?.status).toBe('False')
  expect(ended.guest).toBe(undefined)
})

test('a spec that libvirt changed is a condition with the first fields', () => {
  const specDrift = Array.from({ length: 7 }, (_, i) => ({ field: `f${i}`, spec: i, libvirt: null }))
  const status = statusOf(vmWith({ phase: 'Running' }), report('Running', { specDrift }), [], now)
  expect(status.conditions?.find(({ type }) => type === 'SpecDrift')).toMatchObject({
    status: 'True',
    message:
      'f0: 0 became null; f1: 1 became null; f2: 2 became null; f3: 3 became null; f4: 4 became null; and 2 more',
  })
})

test.each<[string, JsonObject, boolean]>([
  ['of too many bytes', { title: 'ü'.repeat(128 * 1024) }, false],
  ['of too many values', { devices: { disks: Array.from({ length: 8000 }, () => ({})) } }, false],
  ['of 100 devices', { devices: { disks: Array.from({ length: 100 }, () => ({ title: 'x'.repeat(600) })) } }, true],
])('whether a domain %s is stored', (_, domain, isStored) => {
  const kept = withoutLargeParts(report('Running', { domain }))
  const status = statusOf(vmWith({ phase: 'Running' }), kept, [], now)
  expect(status.domain).toEqual(isStored ? domain : undefined)
})

test('a VM that runs again has no reason for Unknown any more', () => {
  const before = vmWith({ phase: 'Unknown' })
  const reason = 'NodeUnreachable'
  const unknown = { ...before, status: { ...before.status, reason, message: 'the node does not answer' } }
  const status = statusOf(unknown, report('Running'), [], now)
  expect([status.phase, status.reason, status.message]).toEqual(['Running', undefined, undefined])
})

test('a deletion is a new generation, but needs no update of its own', () => {
  const observation = reported(report('Running'))
  const status = statusOf(vmWith({ phase: 'Running' }), report('Running'), [], now)
  const seen: VirtualMachine = { ...vmWith({ phase: 'Running', isDeleting: true }), status }
  const deleted = { ...seen, metadata: { ...seen.metadata, generation: 2 } }
  expect(summaries(plan(deleted, observation, now))).toEqual(['shutDownGuest 30', 'recordEvent Normal ShuttingDown'])
})

const asked = { id: 's-1' }
const toThaw = { id: 's-1', thaw: true }
const frozen = (state: FreezeState, id = 's-1') => ({ version: 3, frozen: { id, state } })

test.each<[string, FreezeRequest | undefined, Partial<DomainReport>, string[]]>([
  ['no request', undefined, { version: 3 }, []],
  ['a request', asked, { version: 3 }, ['freezeGuest s-1']],
  ['a request to an older launcher', asked, { version: 2 }, []],
  ['a request that was served', asked, frozen('Frozen'), []],
  ['a request that failed', asked, frozen('Failed'), []],
  ['a request after another', asked, frozen('Thawed', 's-0'), ['freezeGuest s-1']],
  ['a request to thaw', toThaw, frozen('Frozen'), ['thawGuest s-1']],
  ['a request to thaw while it freezes', toThaw, frozen('Freezing'), ['thawGuest s-1']],
  ['a request to thaw that was served', toThaw, frozen('Thawed'), []],
  ['a request to thaw what was never frozen', toThaw, { version: 3 }, []],
])('freezes the guest for a snapshot: %s', (_, freeze, more, expected) => {
  const vm = vmWith({ phase: 'Running' })
  const observation = reported(report('Running', more))
  const [, ...rest] = summaries(plan({ ...vm, status: { ...vm.status, ...(freeze && { freeze }) } }, observation, now))
  expect(rest).toEqual(expected)
})

test('a paused guest is not frozen, and one that is being deleted is shut down instead', () => {
  const request = (given: Given, phase: DomainReport['phase']) => {
    const vm = vmWith(given)
    return summaries(
      plan({ ...vm, status: { ...vm.status, freeze: asked } }, reported(report(phase, { version: 3 })), now),
    )
  }
  expect(request({ phase: 'Running' }, 'Paused').slice(1)).toEqual([])
  expect(request({ phase: 'Running', isDeleting: true }, 'Running').slice(1)).toEqual([
    'shutDownGuest 30',
    'recordEvent Normal ShuttingDown',
  ])
})

test('the status has what the launcher made of a request, until the guest ends', () => {
  const vm = vmWith({ phase: 'Running' })
  const status = statusOf(vm, report('Running', frozen('Frozen')), [], now)
  expect(status.frozen).toEqual({ id: 's-1', state: 'Frozen' })
  const ended = report('Shutoff', { ...frozen('Expired'), exit: 'Succeeded' })
  expect(statusOf({ ...vm, status }, ended, [], now).frozen).toBeUndefined()
})

test('a message of a launcher is shortened in the status, too', () => {
  const message = '\u001b'.repeat(100_000)
  const refused = { kind: 'refused', reason: 'StartFailed', message, silentForMs: 0, launcherVersion: 1 } as const
  const [update] = plan(vmWith({ phase: 'Scheduled' }), refused, now)
  const shown = update?.do === 'updateStatus' ? (update.status.message ?? '') : ''
  expect(shown).toMatch(/^\uFFFD+…$/)
  expect(Buffer.byteLength(shown)).toBeLessThanOrEqual(4096)
})

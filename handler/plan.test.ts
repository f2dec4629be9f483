import { expect, test } from 'vitest'
import type { Phase, VirtualMachine } from '../api/machine.ts'
import type { DomainReport, JsonObject } from '../runtime/launcher-api.ts'
import { plan, type Action, type Observation } from './plan.ts'
import { slimMachine } from './slim-machine.ts'
import { statusOf } from './status.ts'

const now = new Date('2026-01-02T03:04:05Z')
const seconds = (offset: number) => new Date(now.getTime() + offset * 1000).toISOString()

interface Given {
  phase: Phase
  isDeleting?: boolean
  grace?: number
  asked?: string
  scheduledAgo?: number
}

function machine({ phase, isDeleting = false, grace, asked, scheduledAgo = 0 }: Given): VirtualMachine {
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: {
      name: 'vm',
      namespace: 'default',
      uid: 'vm-1',
      generation: 1,
      ...(isDeleting ? { deletionTimestamp: seconds(-1) } : {}),
      ...(asked === undefined ? {} : { annotations: { 'virtset.io/grace-period-seconds': asked } }),
    },
    spec: { domain: {}, ...(grace === undefined ? {} : { terminationGracePeriodSeconds: grace }) },
    status: { phase, phaseTransitionTimestamps: [{ phase: 'Scheduled', time: seconds(-scheduledAgo) }] },
  }
}

function report(phase: DomainReport['phase'], more: Partial<DomainReport> = {}): DomainReport {
  return { vmUID: 'vm-1', phase, reason: 'booted', observedAt: seconds(0), ...more }
}

const said = (one: DomainReport): Observation & { kind: 'report' } => ({ kind: 'report', report: one })

/** What a plan does, in words; what it writes is the phase and the conditions' reasons. */
function words(actions: Action[]): string[] {
  return actions.map((action) => {
    switch (action.do) {
      case 'write':
        return `write ${action.status.phase} ${action.status.conditions?.map((c) => `${c.type}=${c.status}:${c.reason}`).join(' ')}`
      case 'tell':
        return `tell ${action.type} ${action.reason}`
      case 'again':
        return `again ${action.afterMs}`
      case 'shutdown':
        return `shutdown ${action.gracePeriodSeconds}`
      default:
        return action.do
    }
  })
}

const running = 'write Running Ready=True:GuestRunning Synchronized=True:DomainDefined'
const rows: [string, Given, Observation, string[]][] = [
  ['looks for the socket at once', { phase: 'Scheduled' }, { kind: 'absent' }, ['again 50']],
  [
    'looks less often for a pod that pulls its image',
    { phase: 'Scheduled', scheduledAgo: 20 },
    { kind: 'absent' },
    ['again 1000'],
  ],
  ['looks every two seconds at most', { phase: 'Scheduled', scheduledAgo: 900 }, { kind: 'absent' }, ['again 2000']],
  ['leaves a lost pod to the controller', { phase: 'Running' }, { kind: 'absent' }, []],
  ['hands the VM over', { phase: 'Scheduled' }, said(report('Waiting')), ['put']],
  ['starts nothing that is being deleted', { phase: 'Scheduled', isDeleting: true }, said(report('Waiting')), []],
  [
    'never starts a second QEMU where the launcher lost the first',
    { phase: 'Running' },
    said(report('Waiting')),
    ['write Failed Synchronized=False:DomainLost Ready=False:DomainLost', 'tell Warning DomainLost', 'final'],
  ],
  [
    'nor where its node had not answered for a while',
    { phase: 'Unknown' },
    said(report('Waiting')),
    ['write Failed Synchronized=False:DomainLost Ready=False:DomainLost', 'tell Warning DomainLost', 'final'],
  ],
  ['sees again what ran on a node that had not answered', { phase: 'Unknown' }, said(report('Running')), [running]],
  ['reports a guest that runs', { phase: 'Scheduled' }, said(report('Running')), [running, 'tell Normal Started']],
  [
    'reports a pause',
    { phase: 'Running' },
    said(report('Paused', { reason: 'ioerror' })),
    ['write Running Ready=False:GuestPaused Synchronized=True:DomainDefined'],
  ],
  [
    'asks for shutdown with the grace period that it was stopped with',
    { phase: 'Running', isDeleting: true, grace: 7, asked: '3' },
    said(report('Running')),
    [running, 'shutdown 3', 'tell Normal ShuttingDown'],
  ],
  [
    'ends it when the grace period that it was stopped with is over, though kubelet gave it longer',
    { phase: 'Running', isDeleting: true, grace: 30, asked: '1' },
    said(report('ShuttingDown', { deadline: seconds(29) })),
    ['destroy', 'tell Warning GracePeriodExceeded', 'again 5000'],
  ],
  [
    'asks for shutdown with the VM’s own grace period',
    { phase: 'Scheduled', isDeleting: true, grace: 7 },
    said(report('Running')),
    [running, 'tell Normal Started', 'shutdown 7', 'tell Normal ShuttingDown'],
  ],
  [
    'waits for the deadline, whoever set it',
    { phase: 'Running', isDeleting: true },
    said(report('ShuttingDown', { deadline: seconds(4) })),
    ['again 4000'],
  ],
  [
    'does not let a deadline that is always a moment away keep it busy',
    { phase: 'Running', isDeleting: true },
    said(report('ShuttingDown', { deadline: seconds(0.001) })),
    ['again 100'],
  ],
  [
    'ends the guest when its time is over',
    { phase: 'Running' },
    said(report('ShuttingDown', { deadline: seconds(-1) })),
    ['destroy', 'tell Warning GracePeriodExceeded', 'again 5000'],
  ],
  [
    'writes the end before it lets the launcher go',
    { phase: 'Running' },
    said(report('Gone', { reason: 'shutdown', exit: 'Succeeded' })),
    ['write Succeeded Ready=False:GuestStopped Synchronized=True:DomainDefined', 'tell Normal Stopped', 'final'],
  ],
  [
    'has succeeded in ending what was to be deleted and did not power off',
    { phase: 'Running', isDeleting: true },
    said(report('Shutoff', { reason: 'destroyed', exit: 'Failed' })),
    ['write Succeeded Ready=False:GuestStopped Synchronized=True:DomainDefined', 'tell Normal Stopped', 'final'],
  ],
  [
    'tells that a guest was ended which nobody had deleted',
    { phase: 'Running' },
    said(report('Shutoff', { reason: 'destroyed', exit: 'Failed' })),
    ['write Failed Ready=False:GuestStopped Synchronized=True:DomainDefined', 'tell Warning GuestFailed', 'final'],
  ],
  [
    'tells a crash on the way to its end',
    { phase: 'Running', isDeleting: true },
    said(report('Crashed', { reason: 'failed', exit: 'Failed', message: 'QEMU was killed' })),
    ['write Failed Ready=False:GuestStopped Synchronized=True:DomainDefined', 'tell Warning GuestFailed', 'final'],
  ],
  [
    'tells a crash',
    { phase: 'Running' },
    said(report('Crashed', { reason: 'failed', exit: 'Failed', message: 'QEMU was killed' })),
    ['write Failed Ready=False:GuestStopped Synchronized=True:DomainDefined', 'tell Warning GuestFailed', 'final'],
  ],
  [
    'tells that the kernel killed QEMU for memory',
    { phase: 'Running' },
    said(report('Shutoff', { reason: 'OOMKilled', exit: 'Failed', message: 'memory ran out' })),
    ['write Failed Ready=False:GuestStopped Synchronized=True:DomainDefined', 'tell Warning OOMKilled', 'final'],
  ],
  [
    'lets the launcher go when the end is written',
    { phase: 'Failed' },
    said(report('Crashed', { exit: 'Failed' })),
    ['final'],
  ],
  ['leaves a finished VM alone', { phase: 'Succeeded' }, { kind: 'absent' }, []],
  [
    'fails a VM that libvirt refuses',
    { phase: 'Scheduled' },
    { kind: 'refused', reason: 'StartFailed', message: 'no such target', silentForMs: 0 },
    ['write Failed Synchronized=False:StartFailed Ready=False:StartFailed', 'tell Warning StartFailed', 'final'],
  ],
  [
    'asks again while libvirtd comes back',
    { phase: 'Scheduled' },
    { kind: 'refused', reason: 'LibvirtUnavailable', message: 'restarting', silentForMs: 29_999 },
    ['again 7499.75'],
  ],
  [
    'says that libvirtd does not come back',
    { phase: 'Scheduled' },
    { kind: 'refused', reason: 'LibvirtUnavailable', message: 'restarting', silentForMs: 30_000 },
    ['write Scheduled Synchronized=Unknown:LibvirtUnavailable Ready=Unknown:LibvirtUnavailable', 'again 7500'],
  ],
  [
    'touches no launcher of another VM',
    { phase: 'Scheduled' },
    { kind: 'refused', reason: 'OtherVirtualMachine', message: 'has vm-2', silentForMs: 0 },
    ['write Scheduled Synchronized=Unknown:OtherVirtualMachine Ready=Unknown:OtherVirtualMachine', 'again 10000'],
  ],
  [
    'says nothing of a short silence',
    { phase: 'Running' },
    { kind: 'unreachable', message: 'refused', silentForMs: 20_000 },
    ['again 5000'],
  ],
  [
    'says that it does not know, and does nothing else',
    { phase: 'Running', isDeleting: true },
    { kind: 'unreachable', message: 'refused', silentForMs: 30_000 },
    ['write Running Synchronized=Unknown:LauncherUnreachable Ready=Unknown:LauncherUnreachable', 'again 7500'],
  ],
  [
    'says nothing of a guest that is being started, and looks again',
    { phase: 'Scheduled' },
    { ...said(report('Defined', { reason: 'starting' })), startingForMs: 4999 },
    ['again 5000'],
  ],
  [
    'says that a guest takes long to start',
    { phase: 'Scheduled' },
    { ...said(report('Defined', { reason: 'starting' })), startingForMs: 5000 },
    ['write Scheduled Ready=False:GuestStarting Synchronized=Unknown:GuestStarting', 'again 5000'],
  ],
  ...(['DefineRefused', 'StartFailed', 'VolumeUnavailable'] as const).map((reason): (typeof rows)[number] => [
    `fails a VM whose accepted start ends with ${reason}`,
    { phase: 'Scheduled' },
    said(report('Gone', { reason: reason[0]?.toLowerCase() + reason.slice(1), exit: 'Failed', message: 'no' })),
    [`write Failed Synchronized=False:${reason} Ready=False:${reason}`, `tell Warning ${reason}`, 'final'],
  ]),
  [
    'says at once that a launcher misbehaves, and looks less and less often',
    { phase: 'Running' },
    { kind: 'misbehaving', message: 'not JSON', silentForMs: 0 },
    [
      'write Running Synchronized=Unknown:LauncherMisbehaving Ready=Unknown:LauncherMisbehaving',
      'tell Warning LauncherMisbehaving',
      'again 1000',
    ],
  ],
  [
    'waits as long again as a launcher has misbehaved',
    { phase: 'Running', isDeleting: true },
    { kind: 'misbehaving', message: 'not JSON', silentForMs: 8000 },
    [
      'write Running Synchronized=Unknown:LauncherMisbehaving Ready=Unknown:LauncherMisbehaving',
      'tell Warning LauncherMisbehaving',
      'again 8000',
    ],
  ],
  [
    'says that events misbehave, and reports what is answered',
    { phase: 'Scheduled' },
    { ...said(report('Running')), misbehaviour: 'it sends events without end' },
    [
      'write Running Ready=True:GuestRunning Synchronized=Unknown:LauncherMisbehaving',
      'tell Warning LauncherMisbehaving',
      'tell Normal Started',
    ],
  ],
  [
    'asks who is silent for very long twice a minute',
    { phase: 'Running' },
    { kind: 'unreachable', message: 'refused', silentForMs: 3_600_000 },
    ['write Running Synchronized=Unknown:LauncherUnreachable Ready=Unknown:LauncherUnreachable', 'again 30000'],
  ],
]

test.each(rows)('%s', (_, given, observation, expected) => {
  expect(words(plan(machine(given), observation, now))).toEqual(expected)
})

test('records that a launcher misbehaves once', () => {
  const observation: Observation = { kind: 'misbehaving', message: 'not JSON', silentForMs: 60_000 }
  const before = machine({ phase: 'Running' })
  const [write] = plan(before, observation, now)
  if (write?.do !== 'write') throw new Error('nothing was written')
  expect(words(plan({ ...before, status: write.status }, observation, now))).toEqual(['again 30000'])
})

test('writes nothing that is written already', () => {
  const before = machine({ phase: 'Scheduled' })
  const written = { ...before, status: statusOf(before, report('Running'), '10.0.0.1', now) }
  const later = new Date(now.getTime() + 60_000)
  expect(
    plan(written, { kind: 'report', report: report('Running', { observedAt: seconds(60) }), podIP: '10.0.0.1' }, later),
  ).toEqual([])
})

test('a domain that is stored already is no change, in whatever order its keys are', () => {
  const before = machine({ phase: 'Running' })
  const first = statusOf(before, report('Running', { domain: { type: 'qemu', name: 'vm' } }), '10.0.0.1', now)
  const metadata = { ...before.metadata, name: 'vm', uid: 'vm-1', resourceVersion: '7' }
  const cached = slimMachine({ ...before, metadata, status: first })
  const again = report('Running', { domain: { name: 'vm', type: 'qemu' } })
  expect(plan(cached, { kind: 'report', report: again, podIP: '10.0.0.1' }, now)).toEqual([])
  const other = { ...again, domain: { name: 'vm', type: 'kvm' } }
  expect(words(plan(cached, { kind: 'report', report: other, podIP: '10.0.0.1' }, now))).toEqual([running])
})

test('a status carries the live domain, what the guest sees of its interfaces, and each transition once', () => {
  const domain = {
    type: 'qemu',
    devices: { interfaces: [{ mac: { address: '52:54:00:00:00:01' }, alias: { name: 'net0' } }, {}, 7] },
  }
  const status = statusOf(machine({ phase: 'Scheduled' }), report('Running', { domain }), '10.0.0.1', now)
  expect(status).toEqual({
    phase: 'Running',
    podIP: '10.0.0.1',
    domain,
    interfaces: [{ name: 'net0', mac: '52:54:00:00:00:01' }, {}, {}],
    phaseTransitionTimestamps: [
      { phase: 'Scheduled', time: seconds(0) },
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

test('a spec that libvirt changed is a condition that names the first fields', () => {
  const specDrift = Array.from({ length: 7 }, (_, i) => ({ field: `f${i}`, spec: i, libvirt: null }))
  const status = statusOf(machine({ phase: 'Running' }), report('Running', { specDrift }), undefined, now)
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
  const status = statusOf(machine({ phase: 'Running' }), report('Running', { domain }), undefined, now)
  expect(status.domain).toEqual(isStored ? domain : undefined)
})

test('what runs again no longer says why it was Unknown', () => {
  const before = machine({ phase: 'Unknown' })
  const reason = 'NodeUnreachable'
  const doubted = { ...before, status: { ...before.status, reason, message: 'the node does not answer' } }
  const status = statusOf(doubted, report('Running'), undefined, now)
  expect([status.phase, status.reason, status.message]).toEqual(['Running', undefined, undefined])
})

test('that a VM is being deleted is a new generation, and no write of its own', () => {
  const observation = said(report('Running'))
  const status = statusOf(machine({ phase: 'Running' }), report('Running'), undefined, now)
  const seen: VirtualMachine = { ...machine({ phase: 'Running', isDeleting: true }), status }
  const deleted = { ...seen, metadata: { ...seen.metadata, generation: 2 } }
  expect(words(plan(deleted, observation, now))).toEqual(['shutdown 30', 'tell Normal ShuttingDown'])
})

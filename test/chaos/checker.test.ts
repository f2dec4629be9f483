import { describe, expect, test } from 'vitest'

import { createChecker, type Snapshot, type Qemu, type SeenVm } from './checker.ts'

const qemu = (pid: number, more: Partial<Qemu> = {}): Qemu => ({
  pid,
  startTime: String(pid),
  podUid: `pod-${pid}`,
  node: 'node1',
  uuid: `uuid-${pid}`,
  disks: [],
  ...more,
})
const vm = (more: Partial<SeenVm> = {}): SeenVm => ({
  name: 'web',
  uid: 'v1',
  phase: 'Running',
  podUid: 'pod-1',
  isDeleted: false,
  excuses: [],
  ...more,
})
const pod = { name: 'launcher', uid: 'pod-1', vmUid: 'v1' }
const at = (seconds: number, vms: readonly SeenVm[], qemus: readonly Qemu[] = [], pods = [pod]): Snapshot => ({
  atMs: seconds * 1000,
  qemus,
  objects: { vms, pods },
})
const breaches = (...snapshots: readonly Snapshot[]) => {
  const checker = createChecker()
  return snapshots
    .flatMap((look) => checker.look(look))
    .map(({ promise, subject, words }) => `${promise}: ${subject}: ${words}`)
}

const pending = (seconds: number) => at(seconds, [vm({ phase: 'Pending' })])
const away = (seconds: number): Snapshot => ({ atMs: seconds * 1000, qemus: [] })
const running = at(0, [vm()], [qemu(1)])

describe('reports a breach', () => {
  test.each<[string, readonly Snapshot[], readonly string[]]>([
    [
      'two QEMUs of one domain',
      [{ atMs: 0, qemus: [qemu(1), qemu(2, { uuid: 'uuid-1' })] }],
      ['one-qemu: domain uuid-1: processes 1 (pod pod-1) and 2 (pod pod-2)'],
    ],
    [
      'two QEMUs in one pod, reported once',
      [
        running,
        at(1, [vm()], [qemu(1), qemu(2, { podUid: 'pod-1' })]),
        at(2, [vm()], [qemu(1), qemu(2, { podUid: 'pod-1' })]),
      ],
      ['one-qemu: pod pod-1: processes 1 (pod pod-1) and 2 (pod pod-1)'],
    ],
    [
      'two QEMUs that write one disk',
      [{ atMs: 0, qemus: [qemu(1, { disks: ['8:1'] }), qemu(2, { disks: ['8:2', '8:1'] })] }],
      ['one-qemu: disk 8:1: processes 1 (pod pod-1) and 2 (pod pod-2)'],
    ],
    [
      'a phase that goes back',
      [running, at(1, [vm({ phase: 'Scheduled' })], [qemu(1)])],
      ['no-return: vm web v1: Running, then Scheduled'],
    ],
    [
      'one end after the other',
      [at(0, [vm({ phase: 'Failed', cause: 'Crashed: QEMU crashed' })]), at(1, [vm({ phase: 'Succeeded' })])],
      ['no-return: vm web v1: Failed, then Succeeded'],
    ],
    [
      'no progress without a word',
      [pending(0), pending(91)],
      ['reason: vm web v1: Pending for 91 s, without a condition that has the reason'],
    ],
    [
      'no progress without a word, with the API server unavailable in between',
      [pending(0), pending(50), away(60), pending(70), pending(111)],
      ['reason: vm web v1: Pending for 91 s, without a condition that has the reason'],
    ],
    [
      'a deletion that does not end',
      [at(0, [vm({ isDeleted: true })], [qemu(1)]), at(95, [vm({ isDeleted: true })], [qemu(1)])],
      ['reason: vm web v1: Running, being deleted for 95 s, without a condition that has the reason'],
    ],
    [
      'a failure without a word',
      [at(0, [vm({ phase: 'Failed' })])],
      ['reason: failed vm web v1: Failed without a reason and a message'],
    ],
    [
      'Running without a process',
      [at(0, [vm()]), at(30, [vm()]), at(61, [vm()])],
      ['status-agrees: vm web v1: Running without a QEMU for 61 s'],
    ],
    [
      'a process after the end',
      [
        at(0, [vm({ phase: 'Failed', cause: 'Crashed: QEMU crashed' })], [qemu(1)]),
        at(61, [vm({ phase: 'Failed', cause: 'Crashed: QEMU crashed' })], [qemu(1)]),
      ],
      ['status-agrees: vm web v1: Failed with a QEMU for 61 s'],
    ],
    [
      'a QEMU and a pod without their VM',
      [running, at(1, [], [qemu(1)]), at(22, [], [qemu(1)])],
      [
        'nothing-left: pod launcher: still there 21 s after its VM',
        'nothing-left: QEMU 1 started at 1: still there 21 s after its VM',
      ],
    ],
  ])('%s', (_, snapshots, expected) => expect(breaches(...snapshots)).toEqual(expected))
})

describe('reports no breach', () => {
  test.each<[string, readonly Snapshot[]]>([
    ['a VM that runs', [running, at(300, [vm()], [qemu(1)])]],
    ['Unknown in between', [running, at(1, [vm({ phase: 'Unknown' })], [qemu(1)]), at(2, [vm()], [qemu(1)])]],
    [
      'no progress with a reason',
      [0, 200].map((second) => at(second, [vm({ phase: 'Scheduling', excuses: ['Unschedulable: no node fits'] })])),
    ],
    [
      'progress within the time',
      [0, 80, 160].map((second, index) => at(second, [vm({ phase: ['Pending', 'Scheduling', 'Scheduled'][index]! })])),
    ],
    ['a disagreement that ended in between', [at(0, [vm()]), at(40, [vm()], [qemu(1)]), at(80, [vm()])]],
    ['anything while the API server is unavailable', [running, { atMs: 400_000, qemus: [qemu(1)] }]],
    ['no progress that nobody could report', [pending(0), away(5), away(95), pending(100)]],
    [
      'a QEMU of which the pod is not known yet',
      [at(0, [vm()], [qemu(1), qemu(9)]), at(19, [vm()], [qemu(1), qemu(9)])],
    ],
    [
      'a new VM of the same name',
      [
        at(0, [vm({ phase: 'Failed', cause: 'Crashed: QEMU crashed' })]),
        at(1, [vm({ uid: 'v2', phase: 'Pending' })], [], []),
      ],
    ],
  ])('%s', (_, snapshots) => expect(breaches(...snapshots)).toEqual([]))
})

test('phases that go back with a restore of etcd are not a breach', () => {
  const checker = createChecker()
  checker.look(running)
  checker.forgetPhases()
  expect(checker.look(at(1, [vm({ phase: 'Scheduled' })], [qemu(1)]))).toEqual([])
})

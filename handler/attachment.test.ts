import { describe, expect, test } from 'vitest'
import type { AttachedVolume, AttachedVolumeStatus, AttachmentPod } from '../api/attached-volume.ts'
import type { VirtualMachine, VirtualMachineStatus } from '../api/virtual-machine.ts'
import type { DomainReport, VolumeReport } from '../runtime/launcher-api.ts'
import { attachedVolumesOf, attachmentEvents, type AttachmentSockets } from './attachment.ts'
import { plan } from './plan.ts'

const now = '2026-01-02T03:04:05.000Z'
const data: AttachedVolume = {
  name: 'data',
  persistentVolumeClaim: { claimName: 'claim' },
  target: { dev: 'vdb', bus: 'virtio' },
  serial: 's',
}
const entry: AttachmentPod = { name: 'data', claimName: 'claim', podName: 'p', podUID: 'p1' }
const attached: VolumeReport = {
  name: 'data',
  claimName: 'claim',
  podUID: 'p1',
  dev: 'vdb',
  bus: 'virtio',
  phase: 'Attached',
}
const request = { name: 'data', claimName: 'claim', podUID: 'p1', dev: 'vdb', bus: 'virtio', serial: 's' }

const vmWith = (attachedVolumes: readonly AttachedVolume[], status: VirtualMachineStatus = {}): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'default', uid: 'vm-1', generation: 1 },
  spec: { domain: {}, attachedVolumes },
  status: { phase: 'Running', ...status },
})

const report = (volumes: VolumeReport[] | undefined, more: Partial<DomainReport> = {}): DomainReport => ({
  vmUID: 'vm-1',
  version: 7,
  generation: 1,
  phase: 'Running',
  reason: 'booted',
  observedAt: now,
  ...(volumes === undefined ? {} : { volumes }),
  ...more,
})

const sockets = (placed: string[] = [], ended: string[] = []): AttachmentSockets => ({
  placed: new Set(placed),
  ended: new Set(ended),
})

const requested = (vm: VirtualMachine, reported: DomainReport, of = sockets()) =>
  plan(vm, { kind: 'report', report: reported, sockets: of }, now).flatMap((action) =>
    action.do === 'attachVolumes' ? [action.volumes] : [],
  )

describe('the launcher is requested', () => {
  const own = { attachmentPods: [entry] }
  test.each<[string, VirtualMachine, DomainReport, AttachmentSockets, unknown[]]>([
    ['to attach a volume whose socket it has', vmWith([data], own), report(undefined), sockets(['p1']), [[request]]],
    ['nothing before', vmWith([data], own), report(undefined), sockets(), []],
    [
      'nothing of a pod that the controller has not named',
      vmWith([data], { attachmentPods: [{ ...entry, claimName: 'other' }] }),
      report(undefined),
      sockets(['p1']),
      [],
    ],
    ['nothing that it has been requested', vmWith([data], own), report([attached]), sockets(['p1']), []],
    [
      'nothing that it has failed to do',
      vmWith([data], own),
      report([{ ...attached, phase: 'Failed' }]),
      sockets(['p1']),
      [],
    ],
    ['to detach a volume that is not in the spec any more', vmWith([], own), report([attached]), sockets(['p1']), [[]]],
    [
      'nothing while it detaches it',
      vmWith([], own),
      report([{ ...attached, phase: 'Detaching' }]),
      sockets(['p1']),
      [],
    ],
    [
      'to attach it again when it is back',
      vmWith([data], own),
      report([{ ...attached, phase: 'Detaching' }]),
      sockets(['p1']),
      [[request]],
    ],
    ['to keep a volume whose pod is gone', vmWith([data]), report([attached]), sockets(), []],
    [
      'to use another pod',
      vmWith([data], { attachmentPods: [{ ...entry, podUID: 'p2' }] }),
      report([attached]),
      sockets(['p2']),
      [[{ ...request, podUID: 'p2' }]],
    ],
    ['nothing of an earlier version', vmWith([data], own), report(undefined, { version: 6 }), sockets(['p1']), []],
    [
      'nothing while its guest is paused',
      vmWith([data], own),
      report(undefined, { phase: 'Paused' }),
      sockets(['p1']),
      [],
    ],
  ])('%s', (_, vm, reported, of, expected) => expect(requested(vm, reported, of)).toEqual(expected))
})

describe('the status of a volume', () => {
  const target = { dev: 'vdb', bus: 'virtio' }
  const shown = (phase: AttachedVolumeStatus['phase'], more: object = {}) => ({
    name: 'data',
    claimName: 'claim',
    phase,
    target,
    ...more,
  })
  const own = { attachmentPods: [entry] }
  test.each<[string, VirtualMachine, DomainReport, AttachmentSockets, AttachedVolumeStatus[]]>([
    ['without a pod', vmWith([data]), report(undefined), sockets(), [shown('Attaching')]],
    [
      'with trouble of its pod',
      vmWith([data], { attachmentPods: [{ ...entry, reason: 'ClaimNotFound', message: 'no' }] }),
      report(undefined),
      sockets(),
      [shown('Attaching', { reason: 'ClaimNotFound', message: 'no' })],
    ],
    [
      'whose socket cannot be moved',
      vmWith([data], own),
      report(undefined),
      { ...sockets(), failures: new Map([['p1', 'EXDEV']]) },
      [shown('Attaching', { reason: 'SocketUnavailable', message: 'EXDEV' })],
    ],
    ['that is attached', vmWith([data], own), report([attached]), sockets(), [shown('Attached')]],
    [
      'that libvirt refuses',
      vmWith([data], own),
      report([{ ...attached, phase: 'Failed', reason: 'AttachRefused', message: 'no slots' }]),
      sockets(),
      [shown('Failed', { reason: 'AttachRefused', message: 'no slots' })],
    ],
    [
      'whose launcher is too old',
      vmWith([data], own),
      report(undefined, { version: 6 }),
      sockets(),
      [
        shown('Attaching', {
          reason: 'LauncherOutdated',
          message:
            'the launcher (protocol version 6) cannot attach volumes; they are attached after the next start of the VM',
        }),
      ],
    ],
    [
      'that is in use',
      vmWith([], own),
      report([{ ...attached, phase: 'Detaching', reason: 'VolumeInUse', message: 'at /mnt' }]),
      sockets(),
      [shown('Detaching', { reason: 'VolumeInUse', message: 'at /mnt' })],
    ],
    [
      'that is detached before another of its name',
      vmWith([{ ...data, persistentVolumeClaim: { claimName: 'new' } }], own),
      report([{ ...attached, phase: 'Detaching' }]),
      sockets(),
      [shown('Detaching')],
    ],
    ['that only a launcher claims to have', vmWith([]), report([attached]), sockets(), []],
    [
      'whose pod is gone from the node',
      vmWith([data], { attachmentPods: [{ ...entry, missing: true }] }),
      report([attached]),
      sockets([], ['p1']),
      [shown('Attached', { endedPodUID: 'p1' })],
    ],
    [
      'that was detached, and whose pod is gone',
      vmWith([], { attachmentPods: [{ ...entry, missing: true }] }),
      report([]),
      sockets([], ['p1']),
      [{ name: 'data', claimName: 'claim', phase: 'Detaching', endedPodUID: 'p1' }],
    ],
    ['whose pod may run', vmWith([], { attachmentPods: [{ ...entry, missing: true }] }), report([]), sockets(), []],
    ['of a guest that has ended', vmWith([data], own), report([attached], { exit: 'Succeeded' }), sockets(), []],
  ])('%s', (_, vm, reported, of, expected) => expect(attachedVolumesOf(vm, reported, of)).toEqual(expected))
})

test.each<[string, VolumeReport[], string]>([
  ['that is attached', [attached], 'True:DomainDefined '],
  ['that is being attached', [], 'False:ChangingVolumes '],
  [
    'that is refused',
    [{ ...attached, phase: 'Failed', reason: 'AttachRefused', message: 'no slots' }],
    'False:VolumesNotAttached volume "data": no slots',
  ],
])('with a volume %s, the condition Synchronized is', (_, volumes, expected) => {
  const vm = vmWith([data], { attachmentPods: [entry] })
  const actions = plan(vm, { kind: 'report', report: report(volumes), sockets: sockets(['p1']) }, now)
  const condition = actions
    .flatMap((action) => (action.do === 'updateStatus' ? (action.status.conditions ?? []) : []))
    .find(({ type }) => type === 'Synchronized')
  expect(`${condition?.status}:${condition?.reason} ${condition?.message}`).toBe(expected)
})

test.each<[string, VirtualMachine, DomainReport]>([
  ['an attached volume', vmWith([data], { attachmentPods: [entry] }), report([attached])],
  [
    'an attached volume whose pod is ending',
    vmWith([data], { attachmentPods: [{ ...entry, reason: 'PodTerminating', message: 'm' }] }),
    report([attached]),
  ],
  [
    'a volume in use',
    vmWith([], { attachmentPods: [entry] }),
    report([{ ...attached, phase: 'Detaching', reason: 'VolumeInUse', message: 'm' }]),
  ],
])('%s that does not change causes no write, and is looked at again', (_, vm, reported) => {
  const observation = { kind: 'report', report: reported, sockets: sockets(['p1']) } as const
  const status = plan(vm, observation, now).flatMap((action) =>
    action.do === 'updateStatus' ? [action.status] : [],
  )[0]
  expect(plan({ ...vm, status: status ?? {} }, observation, '2026-01-02T03:05:05.000Z')).toEqual([
    { do: 'requeueAfter', afterMs: 5000 },
  ])
})

test.each<[string, AttachedVolumeStatus[], AttachedVolumeStatus[], string[]]>([
  [
    'is attached',
    [],
    [{ name: 'a', claimName: 'c', phase: 'Attached', target: { dev: 'vdb' } }],
    ['Normal VolumeAttached: Attached the claim c as vdb'],
  ],
  ['stays', [{ name: 'a', claimName: 'c', phase: 'Attached' }], [{ name: 'a', claimName: 'c', phase: 'Attached' }], []],
  [
    'fails',
    [{ name: 'a', claimName: 'c', phase: 'Attaching' }],
    [{ name: 'a', claimName: 'c', phase: 'Failed', reason: 'AttachRefused', message: 'm' }],
    ['Warning AttachRefused: attached volume "a": m'],
  ],
  [
    'waits for its pod',
    [],
    [{ name: 'a', claimName: 'c', phase: 'Attaching', reason: 'ClaimNotFound', message: 'm' }],
    [],
  ],
  ['is gone', [{ name: 'a', claimName: 'c', phase: 'Detaching' }], [], ['Normal VolumeDetached: Detached the claim c']],
])('a volume that %s has these events', (_, before, after, expected) => {
  expect(attachmentEvents(before, after).map(({ type, reason, message }) => `${type} ${reason}: ${message}`)).toEqual(
    expected,
  )
})

test('a volume for which the status has no room beside those that the guest holds is not reported yet', () => {
  const held = (count: number) =>
    Array.from({ length: count }, (_, n) => ({ name: `held-${n}`, claimName: `held-${n}` }))
  const namesWith = (count: number) =>
    attachedVolumesOf(
      vmWith([data], { attachmentPods: held(count).map((one) => ({ ...entry, ...one })) }),
      report(held(count).map((one) => ({ ...attached, ...one }))),
      sockets(),
    ).map(({ name }) => name)
  const names = held(32).map(({ name }) => name)
  expect([namesWith(31), namesWith(32)]).toEqual([['data', ...names.slice(0, 31)], names])
})

import { describe, expect, test } from 'vitest'
import type { AttachedVolume, AttachmentPod } from '../api/attached-volume.ts'
import type { VirtualMachine, VirtualMachineStatus } from '../api/virtual-machine.ts'
import type { Persisted } from '../runtime/resource.ts'
import { storedVm } from '../test/stored-vm.ts'
import {
  entriesToVerify,
  planAttachments,
  refusedAttachments,
  volumesToExamine,
  type ObservedAttachments,
} from './attachment-plan.ts'
import { attachmentPod, attachmentPodName } from './attachment-pod.ts'
import type { Rival } from './claim-rival.ts'
import type { Claim, Pod } from './pod.ts'

const running = { phase: 'Running', nodeName: 'node1', podUID: 'launcher' } as const
const data: AttachedVolume = { name: 'data', persistentVolumeClaim: { claimName: 'claim' } }
const claim: Persisted<Claim> = {
  metadata: { name: 'claim', uid: 'c1', resourceVersion: '1' },
  spec: { resources: { requests: { storage: '1Gi' } } },
}
const claimWith = (metadata: object, spec: object = {}): ObservedAttachments['claims'] =>
  new Map([['claim', { metadata: { ...claim.metadata, ...metadata }, spec: { ...claim.spec, ...spec } }]])
const podName = attachmentPodName(storedVm(), 'claim')
const entry: AttachmentPod = { name: 'data', claimName: 'claim', podName }
const replacing: AttachmentPod = { ...entry, claimUID: 'c1' }
const named: AttachmentPod = { ...replacing, podUID: 'p1' }
const shown = { name: 'data', claimName: 'claim', phase: 'Attached' } as const

const vmWith = (
  attachedVolumes: readonly AttachedVolume[],
  status: VirtualMachineStatus = {},
  metadata: object = {},
): Persisted<VirtualMachine> =>
  storedVm({
    metadata: metadata as VirtualMachine['metadata'],
    spec: { ...storedVm().spec, attachedVolumes },
    status: { ...running, ...status },
  })

function podOf(over: Partial<Pod['status'] & object> = {}, metadata: object = {}, uid = 'p1'): Persisted<Pod> {
  const pod = attachmentPod(vmWith([data]), data, { image: 'i', claim })
  return {
    ...pod,
    metadata: { ...pod.metadata, name: podName, uid, resourceVersion: '1', ...metadata },
    spec: { ...pod.spec, nodeName: 'node1' },
    status: { phase: 'Running', ...over },
  }
}

const unscheduled: Persisted<Pod> = {
  ...podOf(),
  spec: attachmentPod(vmWith([data]), data, { image: 'i', claim }).spec,
}
const unschedulable = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'full' } as const
const creating = podOf({ containerStatuses: [{ name: 'volume', state: { waiting: { reason: 'ContainerCreating' } } }] })

/** The actions in words; of a status, what it has of the pods. */
function planned(vm: Persisted<VirtualMachine>, more: Partial<ObservedAttachments> = {}): unknown[] {
  const observed = {
    vm,
    pods: [],
    hasLauncher: true,
    claims: new Map([['claim', claim]]),
    rivals: new Map(),
    isDelivered: true,
    endedPods: new Set<string>(),
    image: 'i',
    ...more,
  }
  return planAttachments(observed).map((action) => {
    switch (action.do) {
      case 'updateStatus':
        return (action.status.attachmentPods ?? []).map(({ podUID = '-', missing, reason = '' }) =>
          [podUID, ...(missing === true ? ['missing'] : []), reason].join(' ').trim(),
        )
      case 'createAttachmentPod':
        return `create ${action.pod.metadata.name}`
      case 'deleteAttachmentPod':
        return `delete ${action.pod.metadata.uid}${action.createAfterMs === undefined ? '' : `, create after ${action.createAfterMs}`}`
      case 'recordEvent':
        return `${action.type} ${action.reason}`
      case 'requeueAfter':
        return action.afterMs
    }
  })
}

const create = `create ${podName}`
const ending = { deletionTimestamp: '2030-01-01T00:00:00Z' }

describe('a volume of the spec', () => {
  test.each<[string, VirtualMachineStatus, Partial<ObservedAttachments>, unknown[]]>([
    ['gets a pod', {}, {}, [['-'], create]],
    ['waits for its claim', {}, { claims: new Map() }, [['- ClaimNotFound'], 'Warning ClaimNotFound', 10_000]],
    ...(['config', 'group'] as const).map((owner): [string, VirtualMachineStatus, object, unknown[]] => [
      `waits until its claim of a ${owner} is filled`,
      {},
      { claims: claimWith({ labels: { [`virtset.io/${owner}`]: 'x' } }) },
      [['- ClaimNotFilled'], 'Warning ClaimNotFilled', 10_000],
    ]),
    [
      'gets a pod once its claim of a config is filled',
      {},
      { claims: claimWith({ labels: { 'virtset.io/config': 'x' }, annotations: { 'virtset.io/filled': '' } }) },
      [['-'], create],
    ],
    [
      'gets a pod for a claim of a config that the storage filled from a snapshot',
      {},
      { claims: claimWith({ labels: { 'virtset.io/config': 'x' } }, { dataSource: { kind: 'VolumeSnapshot' } }) },
      [['-'], create],
    ],
    [
      'still waits for its claim',
      { attachmentPods: [{ ...entry, reason: 'ClaimNotFound', message: 'persistentvolumeclaim "claim" not found' }] },
      { claims: new Map() },
      [10_000],
    ],
    ['waits until the guest runs', { phase: 'Scheduled' }, {}, []],
    ['waits on a node that does not respond', { phase: 'Unknown' }, {}, []],
    ['names its pod', { attachmentPods: [entry] }, { pods: [podOf()] }, [['p1']]],
    ['asks before it names its pod', {}, { pods: [podOf()] }, [['-'], 1000]],
    [
      'asks again before it names its pod if it was refused',
      { attachmentPods: [{ ...entry, reason: 'FailedCreate' }] },
      { pods: [podOf()] },
      [['-'], 1000],
    ],
    [
      'names the next pod of a disk that the guest has',
      { attachmentPods: [{ ...replacing, reason: 'x' }], attachedVolumes: [shown] },
      { pods: [podOf()], isDelivered: false },
      [['p1']],
    ],
    [
      'does not name its pod while others may not be known to ask',
      { attachmentPods: [entry] },
      { pods: [podOf()], isDelivered: false },
      [10_000],
    ],
    ['does not name a pod that has no node yet', { attachmentPods: [entry] }, { pods: [unscheduled] }, [10_000]],
    [
      'reports why its pod gets no node',
      { attachmentPods: [entry] },
      { pods: [{ ...unscheduled, status: { conditions: [unschedulable] } }] },
      [['- Unschedulable'], 'Warning Unschedulable'],
    ],
    [
      'waits until a claim that is being deleted is gone',
      {},
      { claims: claimWith(ending) },
      [['- ClaimTerminating'], 'Warning ClaimTerminating', 10_000],
    ],
    ['is unchanged while its pod runs', { attachmentPods: [named] }, { pods: [podOf()] }, []],
    [
      'does not name a pod that another client made',
      { attachmentPods: [entry] },
      { pods: [{ ...podOf(), spec: { ...podOf().spec, automountServiceAccountToken: true } }] },
      [['- PodNotOwn'], 'delete p1, create after 30000'],
    ],
    [
      'does not name a pod that is being deleted',
      { attachmentPods: [entry] },
      { pods: [podOf({}, ending)] },
      [['- PodTerminating']],
    ],
    [
      'reports that its pod is being deleted',
      { attachmentPods: [named] },
      { pods: [podOf({}, ending)] },
      [['p1 PodTerminating']],
    ],
    [
      'reports that its pod fits on no node',
      { attachmentPods: [named] },
      {
        pods: [
          podOf({
            phase: 'Pending',
            conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'full' }],
          }),
        ],
      },
      [['p1 Unschedulable'], 'Warning Unschedulable'],
    ],
    [
      'reports why its pod ended',
      { attachmentPods: [named] },
      {
        pods: [
          podOf({
            containerStatuses: [
              {
                name: 'volume',
                state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 10s' } },
                lastState: { terminated: { exitCode: 1, message: 'no disk' } },
              },
            ],
          }),
        ],
      },
      [['p1 VolumeUnavailable'], 'Warning VolumeUnavailable'],
    ],
    [
      'reports why the kubelet cannot mount its claim',
      { attachmentPods: [named] },
      { pods: [creating], failures: new Map([['p1', { reason: 'FailedMount', message: 'no such device' }]]) },
      [['p1 FailedMount'], 'Warning FailedMount', 30_000],
    ],
    [
      'still reports why its pod ended while its container runs for a moment',
      { attachmentPods: [{ ...named, reason: 'VolumeUnavailable', message: 'no disk' }] },
      {
        pods: [
          podOf({ containerStatuses: [{ name: 'volume', state: {}, lastState: { terminated: { exitCode: 1 } } }] }),
        ],
      },
      [],
    ],
    [
      'no longer reports it once it is attached',
      { attachmentPods: [{ ...named, reason: 'VolumeUnavailable', message: 'no disk' }], attachedVolumes: [shown] },
      {
        pods: [
          podOf({ containerStatuses: [{ name: 'volume', state: {}, lastState: { terminated: { exitCode: 1 } } }] }),
        ],
      },
      [['p1']],
    ],
    [
      'reports nothing of a pod that starts',
      { attachmentPods: [named] },
      {
        pods: [podOf({ containerStatuses: [{ name: 'volume', state: { waiting: { reason: 'ContainerCreating' } } }] })],
      },
      [5000],
    ],
    [
      'replaces a pod that was evicted',
      { attachmentPods: [named] },
      { pods: [podOf({ phase: 'Failed', reason: 'Evicted', containerStatuses: [{ name: 'volume', state: {} }] })] },
      [['p1 Evicted'], 'Warning Evicted', 'delete p1'],
    ],
    [
      'replaces a pod that its kubelet refused, and not at once',
      { attachmentPods: [named] },
      { pods: [podOf({ phase: 'Failed', reason: 'NodeAffinity' })] },
      [['p1 NodeAffinity'], 'Warning NodeAffinity', 'delete p1, create after 30000'],
    ],
    [
      'has no second pod until the node confirms the end of the first',
      { attachmentPods: [named] },
      {},
      [['p1 missing PodMissing'], 'Warning PodMissing'],
    ],
    [
      'does not take a pod of the same name for it either',
      { attachmentPods: [named] },
      { pods: [podOf({}, {}, 'p2')] },
      [['p1 missing PodMissing'], 'Warning PodMissing'],
    ],
    ['can have another once its end was seen', { attachmentPods: [named] }, { endedPods: new Set(['p1']) }, [['-']]],
    [
      'still reports why its kubelet refused the pod that is gone',
      { attachmentPods: [{ ...named, reason: 'NodeAffinity' }] },
      { endedPods: new Set(['p1']) },
      [['- NodeAffinity']],
    ],
    [
      'no longer reports that its pod is being deleted once it is gone',
      { attachmentPods: [{ ...named, reason: 'PodTerminating' }] },
      { endedPods: new Set(['p1']) },
      [['-']],
    ],
    [
      'can have another once the handler has confirmed it',
      {
        attachmentPods: [{ ...named, missing: true, reason: 'PodMissing' }],
        attachedVolumes: [{ ...shown, endedPodUID: 'p1' }],
      },
      {},
      [['-']],
    ],
    [
      'is not confirmed by the end of another pod',
      { attachmentPods: [named], attachedVolumes: [{ ...shown, endedPodUID: 'p0' }] },
      {},
      [['p1 missing PodMissing'], 'Warning PodMissing'],
    ],
  ])('%s', (_, status, more, expected) => expect(planned(vmWith([data], status), more)).toEqual(expected))

  test.each<[string, AttachedVolume]>([
    ['of the same name on another claim', { name: 'data', persistentVolumeClaim: { claimName: 'other' } }],
    ['of the same claim under another name', { name: 'other', persistentVolumeClaim: { claimName: 'claim' } }],
    ['that only reads', { name: 'data', persistentVolumeClaim: { claimName: 'claim', readOnly: true } }],
  ])('%s waits until the one before is detached', (_, volume) => {
    const vm = vmWith([volume], { attachmentPods: [named], attachedVolumes: [shown] })
    expect(volumesToExamine({ vm, hasLauncher: true })).toEqual([])
    expect(planned(vm, { pods: [podOf()] })).toEqual([])
    expect(planned(vmWith([volume], { attachmentPods: [named] }), { pods: [podOf()] })).toEqual(['delete p1', 10_000])
  })
})

describe('the claim of a volume', () => {
  const note = (status: VirtualMachineStatus, more: Partial<ObservedAttachments>) => {
    const observed = {
      hasLauncher: true,
      claims: new Map([['claim', claim]]),
      rivals: new Map(),
      isDelivered: true,
      endedPods: new Set<string>(),
      image: 'i',
    }
    const [first] = planAttachments({ vm: vmWith([data], status), pods: [], ...observed, ...more })
    return first?.do === 'updateStatus' ? first.status.attachmentPods?.[0]?.claimUID : 'unchanged'
  }

  test.each<[string, AttachmentPod, Partial<ObservedAttachments>, string | undefined]>([
    ['is noted with its pod', entry, { pods: [podOf()] }, 'c1'],
    ['is not noted before its pod has a node', { ...entry, reason: 'x' }, { pods: [unscheduled] }, undefined],
    ['is noted for a pod of an earlier version', { ...entry, podUID: 'p1' }, { pods: [podOf()] }, 'c1'],
    [
      'is noted for a pod of an earlier version that is being deleted',
      { ...entry, podUID: 'p1' },
      { pods: [podOf({}, ending)] },
      'c1',
    ],
    [
      'is not noted for a pod of an earlier version that has ended, and keeps no claim',
      { ...entry, podUID: 'p1' },
      { pods: [podOf({ phase: 'Failed' })] },
      undefined,
    ],
    ['stays noted when its pod has ended', named, { endedPods: new Set(['p1']) }, 'c1'],
    ['stays noted while its pod may run', named, {}, 'c1'],
    [
      'is another one for a guest that does not have it',
      replacing,
      { pods: [podOf()], claims: claimWith({ uid: 'c2' }) },
      'c2',
    ],
  ])('%s', (_, before, more, expected) => expect(note({ attachmentPods: [before] }, more)).toBe(expected))

  test('is read until it is noted', () => {
    const examined = (before: AttachmentPod) =>
      volumesToExamine({ vm: vmWith([data], { attachmentPods: [before] }), hasLauncher: true }).length
    expect([{ ...entry, podUID: 'p1' }, replacing, named].map(examined)).toEqual([1, 1, 0])
  })

  const other = claimWith({ uid: 'c2' })
  const failed = { ...shown, phase: 'Failed' } as const
  const detaching = { ...shown, phase: 'Detaching' } as const
  const replaced = ['Warning ClaimReplaced', 10_000]
  test.each<[string, AttachmentPod, VirtualMachineStatus, Partial<ObservedAttachments>, unknown[]]>([
    ['the same gets another pod', replacing, { attachedVolumes: [shown] }, {}, [create]],
    [
      'another gets no pod',
      replacing,
      { attachedVolumes: [shown] },
      { claims: other },
      [['- ClaimReplaced'], ...replaced],
    ],
    [
      'another gets no pod while the guest releases the disk',
      replacing,
      { attachedVolumes: [detaching] },
      { claims: other },
      [['- ClaimReplaced'], ...replaced],
    ],
    [
      'the same, which is being deleted, gets no pod',
      replacing,
      { attachedVolumes: [shown] },
      { claims: claimWith(ending) },
      [['- ClaimTerminating'], 'Warning ClaimTerminating', 10_000],
    ],
    ['another gets a pod if the guest does not have the disk', replacing, {}, { claims: other }, [create]],
    [
      'another gets a pod if libvirt has refused the disk',
      replacing,
      { attachedVolumes: [failed] },
      { claims: other },
      [create],
    ],
    [
      'one that an earlier version has not noted gets no pod',
      entry,
      { attachedVolumes: [shown] },
      {},
      [['- ClaimReplaced'], ...replaced],
    ],
    [
      'one that an earlier version has not noted gets another pod if it is older than the VM',
      entry,
      { attachedVolumes: [shown] },
      { claims: claimWith({ creationTimestamp: '2020-01-01T00:00:00Z' }) },
      [create],
    ],
    [
      'the pod of another, which was created for the same, is not named',
      replacing,
      { attachedVolumes: [shown] },
      { claims: other, pods: [podOf()] },
      [['- ClaimReplaced'], 'Warning ClaimReplaced', 'delete p1'],
    ],
    [
      'the pod that an earlier version has created is named',
      entry,
      { attachedVolumes: [shown] },
      { pods: [podOf()] },
      [['p1']],
    ],
    ['is not forgotten on a node that does not respond', replacing, { phase: 'Unknown' }, { claims: new Map() }, []],
    [
      'is not looked for on a node that does not respond',
      replacing,
      { phase: 'Unknown' },
      { claims: new Map(), pods: [unscheduled] },
      [],
    ],
  ])('%s', (_, before, status, more, expected) =>
    expect(planned(vmWith([data], { attachmentPods: [before], ...status }), more)).toEqual(expected),
  )

  test('that was replaced: the message says what to do', () => {
    const vm = vmWith([data], { attachmentPods: [replacing], attachedVolumes: [shown] })
    const [first] = planAttachments({
      vm,
      pods: [],
      hasLauncher: true,
      claims: other,
      rivals: new Map(),
      isDelivered: true,
      endedPods: new Set(),
      image: 'i',
    })
    expect(first?.do === 'updateStatus' && first.status.attachmentPods?.[0]?.message).toBe(
      'persistentvolumeclaim "claim" was deleted and created again, and the guest has the disk of the one before: unmount it in the guest, detach the volume, and attach it again',
    )
  })
})

describe('a claim that another VM has', () => {
  const rival = { name: 'other', how: 'guestHasIt', hasEnded: false } as const
  const rivals = new Map([['claim', { ...rival, givesWay: false }]])
  const givingWay = new Map([['claim', { ...rival, givesWay: true }]])
  const inUse: AttachmentPod = { ...entry, reason: 'ClaimInUse', message: 'x' }
  test.each<[string, VirtualMachineStatus, Partial<ObservedAttachments>, unknown[]]>([
    ['gets no pod', {}, {}, [['- ClaimInUse'], 'Warning ClaimInUse', 10_000]],
    ['is missing first', {}, { claims: new Map() }, [['- ClaimNotFound'], 'Warning ClaimNotFound', 10_000]],
    [
      'gets no pod that was created at the same time',
      { attachmentPods: [entry] },
      { pods: [unscheduled] },
      [['- ClaimInUse'], 'Warning ClaimInUse', 'delete p1'],
    ],
    [
      'loses the pod that an earlier version has created',
      { attachmentPods: [{ ...named, reason: 'VolumeUnavailable' }] },
      { pods: [podOf()] },
      [['p1 ClaimInUse'], 'Warning ClaimInUse', 'delete p1'],
    ],
    [
      'is in use until that pod is gone',
      { attachmentPods: [{ ...named, reason: 'ClaimInUse' }] },
      { pods: [podOf({}, ending)] },
      [['p1 ClaimInUse']],
    ],
    ['gets a pod once it is free', { attachmentPods: [inUse] }, { rivals: new Map() }, [['-'], create]],
    [
      'is asked for while a younger VM asks, too',
      { attachmentPods: [entry] },
      { pods: [podOf()], rivals: givingWay },
      [1000],
    ],
    ['gets a pod while a younger VM asks, too', {}, { rivals: givingWay }, [['-'], create]],
    ['is only asked for while that VM can have it', { phase: 'Unknown', attachmentPods: [inUse] }, {}, [[]]],
  ])('%s', (_, status, more, expected) =>
    expect(planned(vmWith([data], status), { rivals, ...more })).toEqual(expected),
  )

  const messageWith = (more: Partial<Rival>) => {
    const observed = { pods: [], hasLauncher: true, claims: new Map([['claim', claim]]), endedPods: new Set<string>() }
    const own = new Map([['claim', { ...rival, givesWay: false, ...more }]])
    const [first] = planAttachments({ ...observed, vm: vmWith([data]), rivals: own, isDelivered: true, image: 'i' })
    return first?.do === 'updateStatus' ? first.status.attachmentPods?.[0]?.message : undefined
  }
  const detach = 'detach it there, and it is attached here'
  test.each<[string, Partial<Rival>, string]>([
    ['attached', {}, `has the claim "claim" attached: ${detach}`],
    ['and comes first', { how: 'asks' }, `is to get the claim "claim" first: ${detach}`],
    ['and a pod', { how: 'podHasNode' }, `is to get the claim "claim" first: ${detach}`],
    [
      'and a pod that does not start',
      { how: 'podHasNode', reason: 'FailedMount' },
      `is to get the claim "claim" first, although its pod does not serve it now (FailedMount): ${detach}`,
    ],
    [
      'and has ended',
      { hasEnded: true },
      'has ended, and its pod with the claim "claim" has not: it is attached here after that',
    ],
    [
      'as a volume',
      { how: 'volume' },
      'has the claim "claim" as a volume, and its guest does not share it: it is attached once that VM has ended',
    ],
  ])('%s: the message says which VM and what to do', (_, more, expected) =>
    expect(messageWith(more)).toBe(`the VM "other" ${expected}`),
  )
})

describe('a volume that is not in the spec any more', () => {
  test.each<[string, VirtualMachineStatus, Partial<ObservedAttachments>, unknown[]]>([
    [
      'keeps its pod while it is attached',
      { attachedVolumes: [{ ...shown, phase: 'Detaching' }] },
      { pods: [podOf()] },
      [],
    ],
    ['loses its pod once it is detached', {}, { pods: [podOf()] }, ['delete p1', 10_000]],
    [
      'loses its pod if it could not be attached',
      { attachedVolumes: [{ ...shown, phase: 'Failed' }] },
      { pods: [podOf()] },
      ['delete p1', 10_000],
    ],
    ['waits for the end of its pod, of which there may be no event', {}, { pods: [podOf({}, ending)] }, [10_000]],
    ['is forgotten once its pod has ended', {}, { endedPods: new Set(['p1']) }, [[]]],
    ['is not forgotten while its pod may run', {}, {}, [['p1 missing']]],
  ])('%s', (_, status, more, expected) =>
    expect(planned(vmWith([], { attachmentPods: [named], ...status }), more)).toEqual(expected),
  )

  test('and whose pod was never named asks for its claim no more while the pod ends', () => {
    const { podUID: _, ...unnamed } = named
    const vm = vmWith([], { attachmentPods: [unnamed] })
    expect(planned(vm, { pods: [podOf({}, ending)] })).toEqual([['- PodTerminating'], 10_000])
  })

  test('and whose pod was not named yet loses it', () => {
    expect(planned(vmWith([]), { pods: [podOf()] })).toEqual(['delete p1'])
  })
})

test('no volume gets a pod while the status has no room for more that the guest holds', () => {
  const held = (count: number) =>
    Array.from({ length: count }, (_, n) => ({
      ...named,
      name: `held-${n}`,
      claimName: `held-${n}`,
      podName: `held-${n}`,
    }))
  const detaching = held(32).map(({ name, claimName }) => ({ name, claimName, phase: 'Detaching' as const }))
  const planWith = (count: number, before: readonly AttachedVolume[] = []) =>
    planned(vmWith([...before, data], { attachmentPods: held(count), attachedVolumes: detaching })).filter(
      (one) => one === create,
    )
  expect([planWith(31), planWith(32)]).toEqual([[create], []])
  // It waits until its name is free, and has no entry.
  const waiting = { name: 'held-0', persistentVolumeClaim: { claimName: 'other' } }
  expect(planWith(31, [waiting])).toEqual([create])
})

describe('a VM', () => {
  test.each<[string, VirtualMachineStatus, object, Partial<ObservedAttachments>, unknown[]]>([
    ['that has ended loses its pods', { phase: 'Succeeded' }, {}, { pods: [podOf()] }, ['delete p1', 10_000]],
    ['that has ended forgets them, without the handler', { phase: 'Failed', attachedVolumes: [shown] }, {}, {}, [[]]],
    ['that is being deleted keeps them for its guest', {}, ending, { pods: [podOf()] }, []],
    [
      'that is being deleted loses them with its launcher pod',
      {},
      ending,
      { pods: [podOf()], hasLauncher: false },
      ['delete p1', 10_000],
    ],
  ])('%s', (_, status, metadata, more, expected) => {
    const vm = vmWith([data], { attachmentPods: [named], attachedVolumes: [shown], ...status }, metadata)
    expect(planned(vm, more)).toEqual(expected)
  })

  test.each<[string, VirtualMachineStatus, Partial<ObservedAttachments>, number]>([
    ['that has ended', { phase: 'Failed' }, {}, 1],
    ['that has ended, with a cached pod', { phase: 'Failed' }, { pods: [podOf()] }, 0],
    ['that has ended, like its pod', { phase: 'Failed' }, { endedPods: new Set(['p1']) }, 0],
    ['that runs', {}, {}, 0],
  ])('%s: whether its pods are looked for that are not cached', (_, status, more, expected) => {
    const vm = vmWith([data], { attachmentPods: [named], ...status })
    expect(entriesToVerify({ vm, pods: [], hasLauncher: true, endedPods: new Set(), ...more }).length).toBe(expected)
  })

  test('that has ended and has nothing left is not written again', () => {
    expect(planned(vmWith([data], { phase: 'Failed' }))).toEqual([])
  })
})

test('a refusal is stored once, and tried again', () => {
  const vm = vmWith([data], { attachmentPods: [entry] })
  const refusal = { reason: 'FailedCreate', message: 'exceeded quota' }
  const first = refusedAttachments(vm, [{ entry, ...refusal }])
  expect(first.map((action) => action.do)).toEqual(['recordEvent', 'updateStatus', 'requeueAfter'])
  const after = { ...entry, ...refusal }
  const again = refusedAttachments(vmWith([data], { attachmentPods: [after] }), [{ entry: after, ...refusal }])
  expect(again.map((action) => action.do)).toEqual(['requeueAfter'])
})

test('its pod tolerates what its VM does, and a cordoned node, and has no label of the VM', () => {
  const vm = vmWith([data], {}, { labels: { app: 'web' } })
  const { metadata, spec } = attachmentPod({ ...vm, spec: { ...vm.spec, tolerations: [{ key: 'a' }] } }, data, {
    image: 'i',
    claim,
  })
  expect([metadata.labels, spec.tolerations, spec.volumes.at(-1)]).toEqual([
    { 'virtset.io/attached-to': vm.metadata.uid },
    [{ key: 'a' }, { key: 'node.kubernetes.io/unschedulable', operator: 'Exists', effect: 'NoSchedule' }],
    { name: 'claim', persistentVolumeClaim: { claimName: 'claim' } },
  ])
})

test('a block device is not mounted in its pod', () => {
  const block = { ...claim, spec: { volumeMode: 'Block' as const } }
  const [container] = attachmentPod(vmWith([data]), data, { image: 'i', claim: block }).spec.containers
  expect([container?.volumeMounts.map(({ name }) => name), container?.volumeDevices]).toEqual([
    ['socket', 'tmp'],
    [{ name: 'claim', devicePath: '/var/run/virtset/block' }],
  ])
})

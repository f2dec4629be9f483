import { describe, expect, test } from 'vitest'
import type { AttachedVolume, AttachmentPod } from '../api/attached-volume.ts'
import type { VirtualMachineSpec, VirtualMachineStatus } from '../api/virtual-machine.ts'
import { storedVm } from '../test/stored-vm.ts'
import {
  asksFor,
  claimKey,
  claimKeysOf,
  exclusiveClaimsOf,
  keepsDisk,
  rivalOf,
  rivalsOf,
  type ClaimUser,
} from './claim-rival.ts'

const running = { phase: 'Running', nodeName: 'n1', podUID: 'launcher' } as const
const entry: AttachmentPod = { name: 'data', claimName: 'c', podName: 'p' }
const reading: AttachmentPod = { ...entry, readOnly: true }
const named = { ...entry, podUID: 'p1', claimUID: 'c1' }
const attached = { attachedVolumes: [{ name: 'data', claimName: 'c', phase: 'Attached' }] } as const
const reader: AttachedVolume = { name: 'data', persistentVolumeClaim: { claimName: 'c', readOnly: true } }
const writer: AttachedVolume = { name: 'data', persistentVolumeClaim: { claimName: 'c' } }

const vmWith = (number: 1 | 2, status: VirtualMachineStatus, over: Partial<ClaimUser> = {}) => ({
  ...storedVm({
    metadata: { name: `vm${number}`, uid: `u${number}`, ...over.metadata },
    status: { ...(status.phase === 'Pending' ? {} : running), ...status },
  }),
  ...(over.exclusiveClaims === undefined ? {} : { exclusiveClaims: over.exclusiveClaims }),
})
const asking = { attachmentPods: [entry] }
const served = { attachmentPods: [named] }
const has = { ...served, ...attached }
const withVolume = (isWriter: boolean) => ({ exclusiveClaims: [{ claimName: 'c', isWriter }] })
const older = { metadata: { name: 'vm1', creationTimestamp: '2029-01-01T00:00:00Z' } }
const younger = { metadata: { name: 'vm1', creationTimestamp: '2031-01-01T00:00:00Z' } }
const deleted = { metadata: { name: 'vm1', deletionTimestamp: '2030-01-01T00:00:00Z' } }

describe('a VM that is to get a claim', () => {
  const guest = { name: 'vm1', how: 'guestHasIt', hasEnded: false, givesWay: false }
  const pod = { ...guest, how: 'podHasNode' }
  const first = { ...guest, how: 'asks' }
  const volume = { ...guest, how: 'volume' }
  const givingWay = { ...first, givesWay: true }
  type Row = [string, VirtualMachineStatus, Partial<ClaimUser>, VirtualMachineStatus, object | undefined]
  test.each<Row>([
    ['gets one that nobody uses', {}, {}, {}, undefined],
    ['does not get one that a guest has', has, {}, {}, guest],
    [
      'does not get one that a guest is to release',
      { ...served, attachedVolumes: [{ ...attached.attachedVolumes[0], phase: 'Detaching' }] },
      {},
      {},
      guest,
    ],
    [
      'does not get one that a guest has whose pod is gone',
      { attachmentPods: [{ ...entry, claimUID: 'c1', reason: 'FailedCreate' }], ...attached },
      {},
      {},
      guest,
    ],
    ['does not get one of a guest that may run', { ...has, phase: 'Unknown' }, {}, {}, guest],
    ['does not get one that is served to another', served, {}, asking, pod],
    [
      'learns why the pod of another does not serve it',
      { attachmentPods: [{ ...named, reason: 'FailedMount' }] },
      {},
      asking,
      { ...pod, reason: 'FailedMount' },
    ],
    ['loses its pod to a guest that has it', has, {}, served, guest],
    ['keeps one that its guest has', has, {}, has, undefined],
    ['keeps one that its guest has, whoever starts', {}, withVolume(true), has, undefined],
    ['gets one of a VM that has ended', { ...asking, phase: 'Failed' }, withVolume(true), {}, undefined],
    [
      'does not get one whose pod has not ended like its VM',
      { ...served, phase: 'Failed' },
      {},
      asking,
      { ...pod, hasEnded: true },
    ],
    [
      'gets one whose pod is gone like its VM',
      { attachmentPods: [{ ...entry, claimUID: 'c1' }], ...attached, phase: 'Failed' },
      {},
      asking,
      undefined,
    ],
    ['waits for a younger one that asks to give way', asking, younger, asking, givingWay],
    ['does not wait for a younger one that asks once it has a pod', asking, younger, served, undefined],
    ['does not get the volume of another', {}, withVolume(true), asking, volume],
    [
      'keeps its pod beside the volume of another: its guest may have it already',
      {},
      withVolume(true),
      served,
      undefined,
    ],
    ['does not get a volume that is read', {}, withVolume(false), {}, volume],
    ['gets the volume of one that has no node yet', { phase: 'Pending' }, withVolume(true), {}, undefined],
    ['gets one that a launcher only claims to have', attached, {}, {}, undefined],
    ['waits for an older one that asks', asking, older, asking, first],
    ['waits for an older one whose pod has a node at the same time', served, older, served, pod],
    ['does not wait for one that cannot get it', { attachmentPods: [{ ...entry, reason: 'x' }] }, older, {}, undefined],
    ['does not wait for one that is deleted', asking, { ...older, ...deleted }, {}, undefined],
    ['does not wait for one that does not run', { ...asking, phase: 'Scheduled' }, older, {}, undefined],
  ])('%s', (_, status, over, own, expected) => {
    expect(rivalOf(vmWith(2, own), writer, vmWith(1, status, over))).toEqual(expected)
  })

  const replaced: AttachmentPod = { ...entry, claimUID: 'c1', reason: 'ClaimReplaced' }
  test.each<[string, AttachmentPod, string | undefined, boolean]>([
    ['whose guest has its disk', replaced, 'c1', true],
    ['whose guest has the disk of one before', replaced, 'c2', false],
    ['whose guest has the disk of one before, perhaps', replaced, undefined, true],
    ['whose pod may serve one before', { ...replaced, podUID: 'p1', missing: true }, 'c2', true],
  ])('waits for a VM %s: %s', (_, other, claimUID, expected) => {
    const guestHasIt = vmWith(1, { attachmentPods: [other], ...attached })
    expect(rivalOf(vmWith(2, asking), writer, guestHasIt, claimUID) !== undefined).toBe(expected)
    const spec = { ...storedVm().spec, attachedVolumes: [writer] }
    const claims = new Map(
      claimUID === undefined ? [] : [['c', { metadata: { name: 'c', uid: claimUID, resourceVersion: '1' } }]],
    )
    const rivals = rivalsOf({ ...vmWith(2, asking), spec }, claims, (_key, mayStop) => void mayStop(guestHasIt))
    expect(rivals.has('c')).toBe(expected)
  })

  test('is no rival of itself', () => expect(rivalOf(vmWith(1, {}), writer, vmWith(1, has))).toBeUndefined())

  test('of two, exactly one gives way', () => {
    const both = [vmWith(1, asking), vmWith(2, asking)] as const
    expect([rivalOf(both[0], writer, both[1]), rivalOf(both[1], writer, both[0])]).toEqual([
      { ...givingWay, name: 'vm2' },
      first,
    ])
  })

  test('looks past those that give way', () => {
    const spec = { ...storedVm().spec, attachedVolumes: [writer] }
    const others = [vmWith(1, asking, younger), vmWith(1, served), vmWith(1, asking, older)]
    const looked: unknown[] = []
    const rivals = rivalsOf({ ...vmWith(2, asking), spec }, new Map(), (key, mayStop) => {
      for (const other of others) {
        const stops = mayStop(other)
        looked.push([key, stops])
        if (stops) return
      }
    })
    expect([looked, rivals.get('c')]).toEqual([
      [
        ['default/c', false],
        ['default/c', true],
      ],
      pod,
    ])
  })

  test('asks only what the status says', () => {
    expect(
      [{}, asking, { attachmentPods: [{ ...entry, reason: 'x' }] }, served].map((status) =>
        asksFor(vmWith(1, status), writer),
      ),
    ).toEqual([false, true, false, false])
  })

  test.each<[string, VirtualMachineStatus, Partial<ClaimUser>, boolean]>([
    ['another that reads', { attachmentPods: [{ ...reading, podUID: 'p1' }] }, {}, false],
    ['another that writes', served, {}, true],
    ['a volume that is read', {}, withVolume(false), false],
    ['a volume that is written', {}, withVolume(true), true],
  ])('only to read it, with %s', (_, status, over, isRefused) => {
    expect(rivalOf(vmWith(2, {}), reader, vmWith(1, status, over)) !== undefined).toBe(isRefused)
  })
})

test.each([
  ['has', has, true],
  ['does not have yet', served, false],
])('a volume that the guest %s is compared with no other VM: %#', (_, status, keeps) => {
  expect(keepsDisk(vmWith(1, status), writer)).toBe(keeps)
})

test('a VM is found by the claims that it keeps from others', () => {
  const exclusiveClaims = [{ claimName: 'own', isWriter: true }]
  const keys = (status: VirtualMachineStatus) => claimKeysOf(vmWith(1, status, { exclusiveClaims }))
  const ofWriters = ['default/own', 'default/own writers', 'default/c', 'default/c writers']
  expect([keys(served), keys({ phase: 'Succeeded' })]).toEqual([ofWriters, []])
  expect(keys({ ...served, phase: 'Succeeded' })).toEqual(ofWriters.slice(2))
  const readOnly = { claimName: 'c', readOnly: true }
  expect(claimKeysOf(vmWith(1, { attachmentPods: [{ ...entry, ...readOnly, podUID: 'p' }] }))).toEqual(['default/c'])
  expect(
    [true, false].map((one) => claimKey({ name: 'x', namespace: 'n' }, { claimName: 'c', readOnly: one })),
  ).toEqual(['n/c writers', 'n/c'])
})

describe('the volumes that a VM does not share', () => {
  const specWith = (disk: object, readOnly = false): VirtualMachineSpec => ({
    domain: { devices: { disks: [{ type: 'volume', source: { volume: 'v' }, target: { dev: 'vda' }, ...disk }] } },
    volumes: [
      { name: 'v', persistentVolumeClaim: { claimName: 'c', readOnly } },
      { name: 'unused', persistentVolumeClaim: { claimName: 'd' } },
    ],
  })
  test.each<[string, VirtualMachineSpec, object[]]>([
    ['a disk', specWith({}), [{ claimName: 'c', isWriter: true }]],
    ['a disk that shares', specWith({ shareable: {} }), []],
    ['a disk that reads', specWith({ readonly: {} }), [{ claimName: 'c', isWriter: false }]],
    ['a claim that is read', specWith({}, true), [{ claimName: 'c', isWriter: false }]],
  ])('%s', (_, spec, expected) => expect(exclusiveClaimsOf(spec)).toEqual(expected))

  test('at most 16, of a VM with many', () => {
    const names = Array.from({ length: 256 }, (_, index) => `v${index}`)
    const disks = names.map((volume) => ({ type: 'volume' as const, source: { volume }, target: { dev: volume } }))
    const volumes = names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }))
    expect(exclusiveClaimsOf({ domain: { devices: { disks } }, volumes }).length).toBe(16)
  })
})

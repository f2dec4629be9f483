import { isDeepStrictEqual } from 'node:util'
import type { AttachedVolume, AttachmentPod } from '../../api/attached-volume.ts'
import { isFinished, type VirtualMachine, type VirtualMachineStatus } from '../../api/virtual-machine.ts'
import {
  entriesToVerify,
  planAttachments,
  volumesToExamine,
  type AttachmentAction,
  type ObservedAttachments,
} from '../../controller/attachment-plan.ts'
import { attachedToLabel, attachmentPodName } from '../../controller/attachment-pod.ts'
import { claimKeysOf, rivalsOf } from '../../controller/claim-rival.ts'
import { hasEnded } from '../../controller/own-pod.ts'
import type { Claim, Pod } from '../../controller/pod.ts'
import { slimAttachment } from '../../controller/slim-pod.ts'
import { attachedVolumesOf } from '../../handler/attachment.ts'
import { createOwnWrites } from '../../runtime/own-writes.ts'
import { isOlderVersion, keyOf, type Persisted } from '../../runtime/resource.ts'
import { createStore } from '../../runtime/store.ts'
import { storedVm } from '../stored-vm.ts'

type Vm = Persisted<VirtualMachine>
type OwnPod = Persisted<Pod>

/** The older ones come first. */
export const vmNames = ['a', 'b', 'c'] as const
export type VmName = (typeof vmNames)[number]
/** Processes of the controller, of which one leads. */
export const controllers = [0, 1] as const
export type ControllerId = (typeof controllers)[number]

/** qemu-nbd in the pod of a claim. */
interface Server {
  readonly podUID: string
  readonly vm: VmName
  isRunning: boolean
  /** Whether a status has ever named the pod, so that a guest can use it. */
  wasNamed: boolean
  /** Whether the pod was removed while it ran. */
  isForgotten: boolean
}

/** A pass over a VM, between two of its requests. */
interface Pass {
  readonly vm: Vm
  left: AttachmentAction[] | undefined
}

const claimName = 'claim'
const claim: Persisted<Claim> = {
  metadata: { name: claimName, uid: 'claim-uid', resourceVersion: '1' },
  spec: { volumeMode: 'Block' },
}
const image = 'launcher:1'
const time = '2030-01-01T00:00:00Z'

/**
 * An API server, two processes of the controller, whose caches are as late as the history says, and a node for each VM.
 * All VMs are to get the same claim. What controller and handler decide is their real code.
 */
export function createWorld(readers: readonly VmName[]) {
  let version = 1
  let uids = 0
  const vms = new Map<string, Vm>()
  const pods = new Map<string, OwnPod>()
  /** All versions, in the order of their writes; a watch delivers them. */
  const vmLog: Vm[] = []
  const podLog: { readonly pod: OwnPod; readonly isGone: boolean }[] = []
  const servers = new Map<string, Server>()
  /** By the name of the VM: the pod to whose socket its guest is connected. */
  const guests = new Map<VmName, AttachmentPod>()
  const processes = controllers.map(newProcess)
  let leader: ControllerId = 0

  function newProcess() {
    return {
      vms: createStore<VirtualMachine, 'claim'>({ claim: claimKeysOf }),
      pods: createStore<Pod, 'attachedTo'>({
        attachedTo: ({ metadata }) => [metadata.labels?.[attachedToLabel] ?? ''],
      }),
      vmsSeen: 0,
      podsSeen: 0,
      own: createOwnWrites<VirtualMachine>({ monotonic: () => 0 }),
      endedPods: new Set<string>(),
      queue: new Set<VmName>(),
      timers: new Set<VmName>(),
      passes: new Map<VmName, Pass>(),
    }
  }

  const nameOf = ({ metadata }: { readonly metadata: { readonly name?: string } }) => metadata.name as VmName
  const keyOfVm = (name: VmName): string => `default/${name}`
  const stamped = <T extends Vm | OwnPod>(object: T): T => ({
    ...object,
    metadata: { ...object.metadata, resourceVersion: String(++version) },
  })
  const vmOf = (name: VmName): Vm => vms.get(name)!
  const podOf = (name: VmName): OwnPod | undefined => pods.get(attachmentPodName(vmOf(name), claimName))

  // The API server.

  const putVm = (vm: Vm): Vm => {
    const after = stamped(vm)
    vms.set(after.metadata.name, after)
    vmLog.push(after)
    for (const { podUID } of after.status?.attachmentPods ?? []) {
      const server = servers.get(podUID ?? '')
      if (server !== undefined) server.wasNamed = true
    }
    return after
  }

  /** Undefined: a conflict. */
  const writeStatus = ({ metadata }: Vm, status: VirtualMachineStatus): Vm | undefined => {
    const current = vms.get(metadata.name)
    if (current?.metadata.resourceVersion !== metadata.resourceVersion) return undefined
    return putVm({ ...current, status })
  }

  const putPod = (pod: OwnPod): void => {
    const after = stamped(pod)
    pods.set(after.metadata.name, after)
    podLog.push({ pod: after, isGone: false })
  }

  const removePod = (pod: OwnPod): void => {
    pods.delete(pod.metadata.name)
    version++
    podLog.push({ pod, isGone: true })
  }

  const deletePod = ({ metadata }: OwnPod): void => {
    const pod = pods.get(metadata.name)
    if (pod === undefined || pod.metadata.uid !== metadata.uid) return
    if (pod.spec.nodeName === undefined) removePod(pod)
    else if (pod.metadata.deletionTimestamp === undefined)
      putPod({ ...pod, metadata: { ...pod.metadata, deletionTimestamp: time } })
  }

  /** False: a pod of this name exists. */
  const createPod = (pod: Pod, vm: VmName): boolean => {
    if (pods.has(pod.metadata.name!)) return false
    const uid = `pod-${++uids}`
    servers.set(uid, { podUID: uid, vm, isRunning: false, wasNamed: false, isForgotten: false })
    putPod({ ...pod, metadata: { ...pod.metadata, name: pod.metadata.name!, uid, resourceVersion: '' } })
    return true
  }

  // The controller.

  /** The watch of VMs delivers the next version. */
  const deliverVm = (id: ControllerId): boolean => {
    const process = processes[id]!
    const next = vmLog[process.vmsSeen]
    if (next === undefined) return false
    process.vmsSeen++
    process.vms.put(next)
    process.queue.add(nameOf(next))
    return true
  }

  const deliverPod = (id: ControllerId): boolean => {
    const process = processes[id]!
    const next = podLog[process.podsSeen]
    if (next === undefined) return false
    process.podsSeen++
    const { pod, isGone } = next
    if (isGone) {
      process.pods.remove(pod)
      if (hasEnded(pod)) process.endedPods.add(pod.metadata.uid)
    } else process.pods.put(slimAttachment(pod))
    for (const name of vmNames)
      if (vmOf(name).metadata.uid === pod.metadata.labels?.[attachedToLabel]) process.queue.add(name)
    return true
  }

  /** Its timers are due. */
  const fireTimers = (id: ControllerId): void => {
    const { timers, queue } = processes[id]!
    for (const name of timers) queue.add(name)
    timers.clear()
  }

  /** A pass begins: it reads the VM. */
  const begin = (id: ControllerId, name: VmName): void => {
    const { vms: cache, own, queue, passes } = processes[id]!
    const cached = cache.get(keyOfVm(name))
    if (id !== leader || cached === undefined || passes.has(name) || !queue.delete(name)) return
    const vm = own.newest(cached)
    const isRead = volumesToExamine({ vm, hasLauncher: !isFinished(vm) }).length > 0
    passes.set(name, { vm: isRead ? vmOf(name) : vm, left: undefined })
  }

  /** A pass takes its next step: it observes the rest, or performs an action. */
  const advance = (id: ControllerId, name: VmName): void => {
    const process = processes[id]!
    const pass = process.passes.get(name)
    if (pass === undefined) return
    if (pass.left === undefined) pass.left = planAttachments(observe(id, pass.vm))
    else perform(process, pass, name)
    if (pass.left.length === 0) process.passes.delete(name)
  }

  const observe = (id: ControllerId, vm: Vm): ObservedAttachments => {
    const { vms: cache, pods: podCache, own, endedPods } = processes[id]!
    const hasLauncher = !isFinished(vm)
    const isExamined = volumesToExamine({ vm, hasLauncher }).length > 0
    const found = podCache.byIndex('attachedTo', vm.metadata.uid).flatMap((pod) => {
      if (!isExamined || pod.metadata.deletionTimestamp !== undefined) return [pod]
      const read = pods.get(pod.metadata.name)
      return read?.metadata.uid === pod.metadata.uid ? [{ ...pod, spec: read.spec }] : []
    })
    const uncached = entriesToVerify({ vm, pods: found, hasLauncher, endedPods }).flatMap(({ podName, podUID }) => {
      const pod = pods.get(podName)
      return pod !== undefined && pod.metadata.uid === podUID ? [slimAttachment(pod)] : []
    })
    const cached = cache.get(keyOf(vm.metadata))!
    return {
      vm,
      pods: [...found, ...uncached],
      hasLauncher,
      claims: new Map([[claimName, claim]]),
      rivals: rivalsOf(
        vm,
        new Map([[claimName, claim]]),
        (key, mayStop) => void cache.findByIndex('claim', key, (one) => mayStop(own.newest(one))),
      ),
      isDelivered: !isOlderVersion(cached.metadata.resourceVersion, vm.metadata.resourceVersion),
      endedPods,
      image,
    }
  }

  const perform = (process: ReturnType<typeof newProcess>, pass: Pass, name: VmName): void => {
    const action = pass.left!.shift()!
    switch (action.do) {
      case 'updateStatus': {
        const written = writeStatus(pass.vm, action.status)
        if (written === undefined) pass.left = []
        else process.own.note(written)
        return
      }
      case 'createAttachmentPod':
        if (!createPod(action.pod, name)) process.timers.add(name)
        return
      case 'deleteAttachmentPod':
        return deletePod(action.pod)
      case 'requeueAfter':
        return void process.timers.add(name)
      case 'recordEvent':
    }
  }

  const stateOf = (id: ControllerId) => {
    const { vmsSeen, podsSeen, timers, queue, passes } = processes[id]!
    return {
      isVmLate: vmsSeen < vmLog.length,
      isPodLate: podsSeen < podLog.length,
      timers: timers.size,
      queue: id === leader ? [...queue].filter((name) => !passes.has(name)) : [],
      passes: [...passes.keys()],
    }
  }

  /** The passes of the other one end later. */
  const changeLeader = (): void => {
    leader = leader === 0 ? 1 : 0
    for (const name of vmNames) processes[leader]!.queue.add(name)
  }

  // The nodes.

  const schedule = (name: VmName): void => {
    const pod = podOf(name)
    if (pod !== undefined && pod.spec.nodeName === undefined)
      putPod({ ...pod, spec: { ...pod.spec, nodeName: `node-${name}` } })
  }

  /** The kubelet of its node starts and ends its pods, in two steps, and ends what was removed by force. */
  const runKubelet = (name: VmName): void => {
    const pod = podOf(name)
    for (const server of servers.values())
      if (server.vm === name && server.podUID !== pod?.metadata.uid && server.isRunning) stop(server)
    if (pod?.spec.nodeName === undefined) return
    const server = servers.get(pod.metadata.uid)!
    if (pod.status?.phase === 'Failed') return removePod(pod)
    if (pod.metadata.deletionTimestamp === undefined) {
      server.isRunning = true
      if (pod.status?.phase !== 'Running') putPod({ ...pod, status: { phase: 'Running' } })
    } else {
      stop(server)
      putPod({ ...pod, status: { phase: 'Failed' } })
    }
  }

  const stop = (server: Server): void => {
    server.isRunning = false
  }

  const removeByForce = (name: VmName): void => {
    const pod = podOf(name)
    if (pod === undefined || isFinished(vmOf(name))) return
    servers.get(pod.metadata.uid)!.isForgotten = true
    removePod(pod)
  }

  /** A user deletes it, or its node is drained. */
  const evict = (name: VmName): void => {
    const pod = podOf(name)
    if (pod !== undefined) deletePod(pod)
  }

  const hasWork = (name: VmName): boolean => {
    const pod = podOf(name)
    const isStarted = pod?.status?.phase === 'Running' && pod.metadata.deletionTimestamp === undefined
    const isLeft = [...servers.values()].some(
      ({ vm, isRunning, podUID }) => vm === name && isRunning && podUID !== pod?.metadata.uid,
    )
    return isLeft || (pod?.spec.nodeName !== undefined && !isStarted)
  }

  /** The handler and the launcher: the guest gets the disks that the status names, and the status says so. */
  const handle = (name: VmName): void => {
    const vm = vmOf(name)
    const { status = {}, spec } = vm
    if (isFinished(vm)) return
    const entries = status.attachmentPods ?? []
    const [volume] = spec.attachedVolumes ?? []
    const wanted = entries.find(({ podUID = '' }) => volume !== undefined && servers.get(podUID)?.isRunning === true)
    if (volume === undefined) guests.delete(name)
    else if (wanted !== undefined) guests.set(name, wanted)
    const connected = guests.get(name)
    const ended = entries.flatMap(({ podUID = '' }) => (servers.get(podUID)?.isRunning === true ? [] : [podUID]))
    const attachedVolumes = attachedVolumesOf(
      vm,
      {
        version: 7,
        vmUID: vm.metadata.uid,
        phase: 'Running',
        reason: '',
        observedAt: time,
        volumes:
          connected === undefined
            ? []
            : [{ ...connected, podUID: connected.podUID!, dev: 'vdb', bus: 'virtio', phase: 'Attached' }],
      },
      { placed: new Set(), ended: new Set(ended) },
    )
    if (!isDeepStrictEqual(attachedVolumes, status.attachedVolumes ?? []))
      writeStatus(vm, { ...status, attachedVolumes })
  }

  // The users.

  const attach = (name: VmName): void => {
    const readOnly = readers.includes(name) ? { readOnly: true } : {}
    setVolumes(name, [{ name: 'data', persistentVolumeClaim: { claimName, ...readOnly } }])
  }
  const detach = (name: VmName): void => setVolumes(name, [])
  const setVolumes = (name: VmName, attachedVolumes: readonly AttachedVolume[]): void => {
    const vm = vmOf(name)
    const length = vm.spec.attachedVolumes?.length ?? 0
    if (!isFinished(vm) && length !== attachedVolumes.length) putVm({ ...vm, spec: { ...vm.spec, attachedVolumes } })
  }

  /** @param isLie whether its launcher only claims that its guest has ended */
  const finish = (name: VmName, isLie: boolean): void => {
    const vm = vmOf(name)
    if (isFinished(vm)) return
    const { attachedVolumes: _, ...status } = vm.status ?? {}
    putVm({ ...vm, status: { ...status, phase: 'Succeeded' } })
    if (!isLie) guests.delete(name)
  }

  const setPhase = (name: VmName, phase: 'Running' | 'Unknown'): void => {
    const vm = vmOf(name)
    if (!isFinished(vm) && vm.status?.phase !== phase) putVm({ ...vm, status: { ...vm.status, phase } })
  }

  for (const [index, name] of vmNames.entries()) {
    putVm(
      storedVm({
        metadata: { name, uid: `vm-${name}`, creationTimestamp: `2030-01-01T00:00:0${index}Z` },
        status: { phase: 'Running', nodeName: `node-${name}`, podUID: `launcher-${name}` },
      }),
    )
  }

  return {
    readers,
    /** Of the last write. */
    version: () => version,
    vmOf,
    podOf,
    servers,
    guests,
    deliverVm,
    deliverPod,
    fireTimers,
    begin,
    advance,
    changeLeader,
    schedule,
    runKubelet,
    removeByForce,
    evict,
    hasWork,
    stateOf,
    handle,
    attach,
    detach,
    finish,
    setPhase,
  }
}

export type World = ReturnType<typeof createWorld>

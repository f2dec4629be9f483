import { launcherPodFinalizer } from '../../api/virtual-machine.ts'
import type { Phase, VirtualMachine, VirtualMachineStatus } from '../../api/virtual-machine.ts'
import { withFinalizer, withoutFinalizer } from '../../controller/finalizer.ts'
import { podName, vmUidLabel } from '../../controller/launcher-pod.ts'
import type { NodeState } from '../../controller/node.ts'
import { hasEnded, isTerminal, sortPods, vmUidOf } from '../../controller/own-pod.ts'
import type { Pod, PodCondition } from '../../controller/pod.ts'
import { createStopwatch } from '../../controller/stopwatch.ts'
import type { Stopwatch } from '../../controller/stopwatch.ts'
import { statesOf } from '../../controller/vm-observed.ts'
import type { Mark } from '../../controller/vm-observed.ts'
import { plan as planVm } from '../../controller/vm-plan.ts'
import { plan as planHandler } from '../../handler/plan.ts'
import type { Observation } from '../../handler/plan.ts'
import { isChanged, podEndedStatus } from '../../handler/status.ts'
import { disruptionTarget } from '../../runtime/disruption.ts'
import type { DomainReport } from '../../runtime/launcher-api.ts'
import { isEndAwaited } from '../../runtime/pod-end.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { storedVm } from '../stored-vm.ts'

type Vm = Persisted<VirtualMachine>
type LauncherPod = Persisted<Pod>

/** The process tree of a pod on a node. */
interface Process {
  readonly podUid: string
  readonly node: string
  vmUid: string
  vmName: string
  guest: 'none' | 'running' | 'shuttingDown' | 'ended'
  exit: 'Succeeded' | 'Failed' | undefined
  reason: string
  /** Whether the kubelet sent SIGTERM before the guest ended. */
  isTerminated: boolean
  /** Whether every process in the pod has exited. */
  hasExited: boolean
  /** Whether the launcher claims that its guest has ended, and does not exit on request. */
  isLying: boolean
}

/** A fault of the `at`-th write of a pass, which always ends the pass. */
export interface Fault {
  readonly at: number
  /**
   * lost: it never arrives. unanswered: it is performed, and the response is lost. late: it arrives after other steps.
   */
  readonly kind: 'lost' | 'unanswered' | 'late'
}

export const nodeNames = ['n1', 'n2'] as const
export const vmNames = ['a', 'b'] as const
export type NodeName = (typeof nodeNames)[number]
export type VmName = (typeof vmNames)[number]

const now = '2030-01-01T00:00:00Z'
const image = 'launcher:1'

/** Thrown at a failed write, which ends the pass. */
class PassEnded extends Error {}

/**
 * A cluster in memory: an API server, its clients with their own caches, and the processes on its nodes. The controller
 * and the handlers use the real plans; the rest is the minimum of Kubernetes' behavior. Everything happens in explicit
 * steps, so that a history of steps can contain every delay, loss, repetition and order that the actors allow.
 */
export function createWorld() {
  let version = 1
  let uids = 0
  let clockMs = 0
  const vms = new Map<string, Vm>()
  const pods = new Map<string, LauncherPod>()
  /** The last version of removed pods, which a watch delivers. */
  const removed = new Map<string, LauncherPod>()
  const nodes = new Map<string, { isAlive: boolean; isReachable: boolean }>(
    nodeNames.map((name) => [name, { isAlive: true, isReachable: true }]),
  )
  const processes = new Map<string, Process>()
  const late: (() => void)[] = []
  const events: string[] = []
  /** The final phase of each finished VM, by uid. */
  const ended = new Map<string, Phase>()
  let controller = newController()
  const handlers = new Map<string, Map<string, Vm>>(nodeNames.map((name) => [name, new Map()]))

  function newController() {
    return {
      vms: new Map<string, Vm>(),
      pods: new Map<string, LauncherPod>(),
      own: new Map<string, Vm>(),
      endedPods: new Set<string>(),
      nodes: new Map<string, NodeState>(nodeNames.map((name) => [name, 'ready' as const])),
      stopwatch: createStopwatch<Mark>({ monotonic: () => clockMs }, () => true) as Stopwatch<Mark>,
    }
  }

  const newUid = () => `${(++uids).toString(16).padStart(8, '0')}-0000-4000-8000-000000000000`
  const stamped = <T extends Vm | LauncherPod>(object: T): T => ({
    ...object,
    metadata: { ...object.metadata, resourceVersion: String(++version) },
  })

  // The API server.

  /** @throws PassEnded if `based` is not the current version */
  const writeVm = (based: Vm, change: (current: Vm) => Vm): Vm => {
    const current = vms.get(based.metadata.name)
    if (current?.metadata.resourceVersion !== based.metadata.resourceVersion) throw new PassEnded()
    const after = stamped(change(current))
    if (after.metadata.deletionTimestamp !== undefined && !after.metadata.finalizers?.length) {
      vms.delete(after.metadata.name)
    } else vms.set(after.metadata.name, after)
    return after
  }

  const setPod = (pod: LauncherPod): void => void pods.set(pod.metadata.name, stamped(pod))

  const removePod = (pod: LauncherPod): void => {
    removed.set(pod.metadata.uid, pod)
    pods.delete(pod.metadata.name)
  }

  const deletePod = (uid: string, condition?: PodCondition): void => {
    const pod = [...pods.values()].find(({ metadata }) => metadata.uid === uid)
    if (pod === undefined) return
    const conditions = [...(pod.status?.conditions ?? []), ...(condition ? [condition] : [])]
    const status = { ...pod.status, conditions }
    if (pod.spec.nodeName === undefined || hasEnded(pod)) return removePod({ ...pod, status })
    const deletionTimestamp = pod.metadata.deletionTimestamp ?? now
    setPod({ ...pod, status, metadata: { ...pod.metadata, deletionTimestamp, deletionGracePeriodSeconds: 60 } })
  }

  /** Performs a write, or lets it fail. */
  const attempt = <T>(counter: { left: number }, fault: Fault | undefined, write: () => T): T => {
    if (fault === undefined || counter.left-- > 0) return write()
    if (fault.kind === 'unanswered') write()
    if (fault.kind === 'late') late.push(() => ignoringConflicts(write))
    throw new PassEnded()
  }

  const ignoringConflicts = (act: () => unknown): void => {
    try {
      act()
    } catch (error) {
      if (!(error instanceof PassEnded)) throw error
    }
  }

  // The controller.

  const observePod = (name: string): void => {
    const before = controller.pods.get(name)
    const after = pods.get(name)
    if (before !== undefined && before.metadata.uid !== after?.metadata.uid) {
      const last = removed.get(before.metadata.uid) ?? before
      const isNamed = [...controller.vms.values()].some(({ status }) => status?.podUID === before.metadata.uid)
      if (isNamed && isTerminal(last)) controller.endedPods.add(before.metadata.uid)
    }
    if (after?.metadata.labels?.[vmUidLabel] === undefined) controller.pods.delete(name)
    else controller.pods.set(name, after)
  }

  const observeVm = (name: string): void => {
    const after = vms.get(name)
    if (after) controller.vms.set(name, after)
    else controller.vms.delete(name)
  }

  const reconcile = (name: string, fault?: Fault): void => {
    const cached = controller.vms.get(name)
    if (cached === undefined) return
    const own = controller.own.get(name)
    const isOwnNewer =
      own?.metadata.uid === cached.metadata.uid &&
      Number(own.metadata.resourceVersion) > Number(cached.metadata.resourceVersion)
    const vm = isOwnNewer ? own : cached
    const isDeleting = vm.metadata.deletionTimestamp !== undefined
    const isOver = vm.status?.phase === 'Succeeded' || vm.status?.phase === 'Failed'
    const cachedPod = controller.pods.get(podName(vm))
    const named = cachedPod ?? (isOver && !isDeleting ? undefined : pods.get(podName(vm)))
    const labelled = [...controller.pods.values()].filter(
      ({ metadata }) => metadata.labels?.[vmUidLabel] === vm.metadata.uid,
    )
    const found = sortPods(vm, named, labelled)
    const predecessors = [...controller.pods.values()].filter(
      (pod) =>
        pod.metadata.labels?.['virtset.io/vm-name'] === name &&
        ![...controller.vms.values()].some(({ metadata }) => metadata.uid === vmUidOf(pod)),
    )
    const node = controller.nodes.get(vm.status?.nodeName ?? '') ?? 'gone'
    const actions = planVm({
      vm,
      ...found,
      predecessors: vm.status?.podUID === undefined && !isDeleting ? predecessors : [],
      isEndObserved: controller.endedPods.has(vm.status?.podUID ?? ''),
      isFillRecorded: true,
      failure: undefined,
      completion: { kind: 'done', presets: [] },
      claims: new Map(),
      lostSnapshots: [],
      node,
      image,
      elapsed: controller.stopwatch.measure(vm.metadata.uid, statesOf(vm, found.pods, node)),
      now,
    })
    const counter = { left: fault?.at ?? 0 }
    const note = (written: Vm) => void controller.own.set(name, written)
    ignoringConflicts(() => {
      for (const action of actions) {
        switch (action.do) {
          case 'addFinalizer':
            note(attempt(counter, fault, () => writeVm(vm, (one) => finalizers(one, withFinalizer(vm)))))
            break
          case 'removeFinalizer':
            attempt(counter, fault, () => writeVm(vm, (one) => finalizers(one, withoutFinalizer(vm))))
            break
          case 'completeSpec':
            throw new Error('the VM is complete')
          case 'createPod':
            attempt(counter, fault, () => {
              if (pods.has(podName(vm))) throw new PassEnded()
              const { metadata, ...rest } = action.pod
              setPod({ ...rest, metadata: { ...metadata, name: podName(vm), uid: newUid(), resourceVersion: '' } })
            })
            break
          case 'relabelPod':
            throw new Error('no VM is relabelled')
          case 'deletePod':
            attempt(counter, fault, () => deletePod(action.pod.metadata.uid))
            break
          case 'updateStatus':
            note(attempt(counter, fault, () => writeVm(vm, (one) => ({ ...one, status: action.status }))))
            break
          case 'recordEvent':
            events.push(`${vm.metadata.uid} ${action.reason}`)
            break
          case 'requeueAfter':
            break
        }
      }
    })
  }

  const finalizers = (vm: Vm, all: readonly string[]): Vm => ({ ...vm, metadata: { ...vm.metadata, finalizers: all } })

  // A handler and the launchers of its node.

  const works = (node: string): boolean => {
    const { isAlive, isReachable } = nodes.get(node) ?? { isAlive: false, isReachable: false }
    return isAlive && isReachable
  }

  const launcherAt = (node: string, podUid: string): Process | undefined => {
    const process = processes.get(podUid)
    return process === undefined || process.node !== node || process.hasExited ? undefined : process
  }

  const observationOf = (node: string, podUid: string): Observation => {
    const process = launcherAt(node, podUid)
    return process === undefined ? { kind: 'absent', absentForMs: 0 } : { kind: 'report', report: reportOf(process) }
  }

  const reportOf = ({ guest, vmUid, exit, reason, isTerminated, isLying }: Process): DomainReport => {
    const common = { vmUID: vmUid, observedAt: now, isTerminated }
    if (isLying) return { ...common, phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' }
    if (guest === 'none') return { ...common, phase: 'Waiting', reason: 'none' }
    if (guest === 'running') return { ...common, phase: 'Running', reason: 'booted' }
    if (guest === 'shuttingDown') {
      return { ...common, phase: 'ShuttingDown', reason: 'booted', deadline: now, gracePeriodSeconds: 0 }
    }
    return { ...common, phase: 'Shutoff', reason, ...(exit === undefined ? {} : { exit }) }
  }

  const handle = (node: string, name: string, fault?: Fault): void => {
    const cached = handlers.get(node)?.get(name)
    const podUid = cached?.status?.podUID
    if (!works(node) || cached?.status?.nodeName !== node || podUid === undefined) return
    const counter = { left: fault?.at ?? 0 }
    const write = (vm: Vm, status: VirtualMachineStatus): Vm =>
      attempt(counter, fault, () => writeVm(vm, (one) => ({ ...one, status })))
    const answerEnd = (vm: Vm): Vm => {
      if (!isEndAwaited(vm)) return vm
      const status = podEndedStatus(vm, launcherAt(node, podUid) !== undefined, now)
      return isChanged(vm, status) ? write(vm, status) : vm
    }
    const perform = (before: Vm): void => {
      let vm = before
      const process = processes.get(podUid)
      for (const action of planHandler(vm, observationOf(node, podUid), now)) {
        switch (action.do) {
          case 'startGuest':
            if (process === undefined) throw new Error('no launcher to start a guest')
            process.vmUid = vm.metadata.uid
            process.vmName = vm.metadata.name
            process.guest = 'running'
            return perform(vm)
          case 'shutDownGuest':
            if (process?.guest === 'running') process.guest = 'shuttingDown'
            break
          case 'releaseLauncher':
            if (process !== undefined && !process.isLying) exitProcess(process)
            break
          case 'updateStatus':
            vm = write(vm, action.status)
            break
          case 'recordEvent':
            events.push(`${vm.metadata.uid} ${action.reason}`)
            break
          case 'requeueAfter':
            break
        }
      }
    }
    ignoringConflicts(() => perform(answerEnd(cached)))
  }

  const endGuest = (process: Process, exit: 'Succeeded' | 'Failed', reason: string): void => {
    if (process.guest !== 'running' && process.guest !== 'shuttingDown') return
    Object.assign(process, { guest: 'ended', exit, reason })
  }

  /** QEMU ends with the last process of its pod. */
  const exitProcess = (process: Process): void => {
    endGuest(process, 'Failed', 'destroyed')
    process.hasExited = true
    process.exit ??= 'Failed'
  }

  // The kubelet.

  const runKubelet = (node: string): void => {
    if (!works(node)) return
    for (const pod of [...pods.values()].filter(({ spec }) => spec.nodeName === node)) {
      const { uid, deletionTimestamp } = pod.metadata
      const process = processes.get(uid)
      const isDeleting = deletionTimestamp !== undefined
      if (process === undefined && !isDeleting && !hasEnded(pod)) {
        const fresh = { guest: 'none', exit: undefined, reason: '', isTerminated: false } as const
        const ids = { podUid: uid, node, vmUid: '', vmName: '' }
        processes.set(uid, { ...ids, ...fresh, hasExited: false, isLying: false })
        setPod({ ...pod, status: { ...pod.status, phase: 'Running' } })
      } else if (process?.hasExited === true && !hasEnded(pod)) {
        setPod({ ...pod, status: { ...pod.status, phase: process.exit ?? 'Failed' } })
      } else if (isDeleting && (process === undefined || process.hasExited)) {
        removePod({ ...pod, status: { ...pod.status, phase: process?.exit ?? 'Failed' } })
      } else if (isDeleting && process !== undefined) {
        // SIGTERM: the launcher shuts the guest down and exits; with no guest it exits at once.
        process.isTerminated ||= process.guest !== 'ended'
        if (process.guest === 'running') process.guest = 'shuttingDown'
        else if (process.guest !== 'shuttingDown') exitProcess(process)
      }
    }
    const isKnown = (uid: string) => [...pods.values()].some(({ metadata }) => metadata.uid === uid)
    for (const process of processes.values()) {
      if (process.node === node && !process.hasExited && !isKnown(process.podUid)) exitProcess(process)
    }
  }

  // Kubernetes' own controllers.

  const collectGarbage = (): void => {
    const isAlive = (uid: string) => [...vms.values()].some(({ metadata }) => metadata.uid === uid)
    for (const pod of pods.values()) {
      const owners = pod.metadata.ownerReferences ?? []
      if (owners.length > 0 && !owners.some(({ uid }) => isAlive(uid))) deletePod(pod.metadata.uid)
    }
    for (const vm of [...vms.values()].filter(({ metadata }) => metadata.finalizers?.includes('orphan'))) {
      for (const pod of pods.values()) {
        const others = (pod.metadata.ownerReferences ?? []).filter(({ uid }) => uid !== vm.metadata.uid)
        if (others.length !== (pod.metadata.ownerReferences ?? []).length) {
          setPod({ ...pod, metadata: { ...pod.metadata, ownerReferences: others } })
        }
      }
      const left = (vm.metadata.finalizers ?? []).filter((name) => name !== 'orphan')
      writeVm(vm, (one) => finalizers(one, left))
    }
  }

  const collectOrphans = (): void => {
    for (const pod of controller.pods.values()) {
      const uid = vmUidOf(pod)
      const isKnown = [...vms.values()].some(({ metadata }) => metadata.uid === uid)
      if (!isKnown && pods.get(pod.metadata.name)?.metadata.uid === pod.metadata.uid) deletePod(pod.metadata.uid)
    }
  }

  const world = {
    vms,
    pods,
    processes,
    events,
    ended,
    create(name: VmName, isHeld: boolean): void {
      if (vms.has(name)) return
      const { metadata, ...rest } = storedVm()
      const held = { ...metadata, name, uid: newUid(), finalizers: isHeld ? [launcherPodFinalizer] : [] }
      vms.set(name, stamped({ ...rest, metadata: held, status: { phase: 'Pending' } }))
    },
    delete(name: VmName, cascade: 'background' | 'orphan'): void {
      const vm = vms.get(name)
      if (vm === undefined || vm.metadata.deletionTimestamp !== undefined) return
      const { finalizers: before = [] } = vm.metadata
      const all = cascade === 'orphan' ? [...before, 'orphan'] : before
      writeVm(vm, (one) => ({ ...one, metadata: { ...one.metadata, deletionTimestamp: now, finalizers: all } }))
    },
    podOf: (name: VmName): LauncherPod | undefined =>
      [...pods.values()].find(({ metadata }) => metadata.name.includes(`-${name}-`)),
    deletePod: (pod: LauncherPod) => deletePod(pod.metadata.uid),
    evictPod: (pod: LauncherPod) =>
      deletePod(pod.metadata.uid, { type: disruptionTarget, status: 'True', reason: 'EvictionByEvictionAPI' }),
    /**
     * Only if the pod has no node, or its node is dead, or its node responds: otherwise the operator's statement that
     * the machine is off would be false.
     */
    forceDeletePod(pod: LauncherPod): void {
      const name = pod.spec.nodeName ?? ''
      const isSeen = works(name) && controller.nodes.get(name) === 'ready'
      if (name === '' || isSeen || nodes.get(name)?.isAlive === false) removePod(pod)
    },
    /**
     * Removes the owner of a VM's own pod and, if `isUnlabelled`, its label. The policy `virtset-launcher-pods`
     * prevents the latter; without it, nothing finds a pod that lost both after its VM was removed, and no guest ever
     * runs there.
     */
    editPod(pod: LauncherPod, isUnlabelled: boolean): void {
      if (pod.metadata.name.endsWith('-copy')) return
      // Before its VM names it, a pod without the label is refused until someone deletes it.
      if (isUnlabelled && ![...vms.values()].some(({ status }) => status?.podUID === pod.metadata.uid)) return
      const { labels = {} } = pod.metadata
      setPod({ ...pod, metadata: { ...pod.metadata, ownerReferences: [], labels: isUnlabelled ? {} : labels } })
    },
    /** Copies a pod like a restore does: with its labels, under another name and without its owner. */
    copyPod(pod: LauncherPod): void {
      const name = `${pod.metadata.name}-copy`
      if (pods.has(name) || pod.metadata.labels?.[vmUidLabel] === undefined) return
      const { nodeName: _node, ...spec } = pod.spec
      const metadata = { ...pod.metadata, name, uid: newUid(), ownerReferences: [] }
      const { deletionTimestamp: _deletion, deletionGracePeriodSeconds: _grace, ...rest } = metadata
      setPod({ ...pod, spec, metadata: rest, status: {} })
    },
    schedule(pod: LauncherPod, nodeName: NodeName): void {
      if (pod.spec.nodeName === undefined) setPod({ ...pod, spec: { ...pod.spec, nodeName } })
    },
    /**
     * Not while a kubelet has yet to notice a forced deletion: that looks the same as one on a node that does not
     * respond.
     */
    partition(node: NodeName): void {
      const isNoticed = ({ podUid, hasExited }: Process) =>
        hasExited || [...pods.values()].some(({ metadata }) => metadata.uid === podUid)
      const all = [...processes.values()].filter((process) => process.node === node)
      if (all.every(isNoticed)) Object.assign(nodes.get(node) ?? {}, { isReachable: false })
    },
    kill(node: NodeName): void {
      Object.assign(nodes.get(node) ?? {}, { isAlive: false })
      for (const process of processes.values()) if (process.node === node) exitProcess(process)
    },
    restore: (node: NodeName) => void Object.assign(nodes.get(node) ?? {}, { isAlive: true, isReachable: true }),
    /** Updates the controller's view of a node: its lease expires, or is renewed, some time after the fact. */
    observeNode: (node: NodeName) => void controller.nodes.set(node, works(node) ? 'ready' : 'silent'),
    crashGuest: (process: Process) => endGuest(process, 'Failed', 'crashed'),
    stopGuest: (process: Process) => endGuest(process, 'Succeeded', 'shutdown'),
    /** A guest has broken out of QEMU. */
    lie: (process: Process) => void Object.assign(process, { isLying: true }),
    exitLauncher(process: Process): void {
      if (process.guest === 'ended') exitProcess(process)
    },
    runKubelet,
    collectGarbage,
    collectOrphans,
    observeVm,
    observePods(): void {
      for (const name of new Set([...pods.keys(), ...controller.pods.keys()])) observePod(name)
    },
    observeAtHandler(node: NodeName, name: VmName): void {
      const vm = vms.get(name)
      if (vm?.status?.nodeName === node) handlers.get(node)?.set(name, vm)
      else handlers.get(node)?.delete(name)
    },
    reconcile,
    handle,
    restartController(): void {
      controller = newController()
      for (const name of vms.keys()) observeVm(name)
      world.observePods()
      for (const node of nodeNames) world.observeNode(node)
    },
    arriveLate: () => late.shift()?.(),
    /**
     * Advances the time. In half a minute every working kubelet and handler gets to act; slower ones are outside the
     * guarantees.
     */
    advance(ms: number): void {
      for (let left = ms; left > 0; left -= 15_000) {
        clockMs += Math.min(left, 15_000)
        for (const node of nodeNames) {
          runKubelet(node)
          for (const name of vmNames) {
            world.observeAtHandler(node, name)
            handle(node, name)
          }
        }
      }
    },
  }
  return world
}

export type World = ReturnType<typeof createWorld>

import { isFinished, type VirtualMachine } from '../api/virtual-machine.ts'
import { unlessOutdated } from '../runtime/api-error.ts'
import { timestamp, type Clock } from '../runtime/clock.ts'
import { createFairLimit } from '../runtime/fair-limit.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { InvalidLauncherResponse, type DomainReport } from '../runtime/launcher-api.ts'
import { createLimitedLog } from '../runtime/limited-log.ts'
import type { Logger } from '../runtime/log.ts'
import { isEndAwaited } from '../runtime/pod-end.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import { keyOf, type Persisted } from '../runtime/resource.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import type { ServingPods } from './attachment-sockets.ts'
import { createGuestStart } from './guest-start.ts'
import type { Launcher, LauncherEvent, LauncherLimits } from './launcher.ts'
import { loggedError } from './launcher-log.ts'
import type { NetworkClient } from './network-client.ts'
import { createObserver } from './observer.ts'
import type { Observation } from './plan.ts'
import { createSending } from './sending.ts'
import { cachedVms, slimVm, type CachedVm } from './slim-vm.ts'
import { isAlive, isChanged, podEndedStatus } from './status.ts'
import { statusWriteOf, type UpdateCost } from './status-write.ts'
import { createStatusWriter } from './status-writer.ts'
import { stepsOf, type Step } from './steps.ts'
import { newTracked, since, type Round, type Tracked } from './tracked.ts'
import { createVmTaps } from './vm-taps.ts'
import { createWholeVms } from './whole-vms.ts'

type Vm = Persisted<CachedVm>

interface HandlerOptions {
  readonly kube: KubeClient
  readonly nodeName: string
  /** The launcher in the pod with this uid, and the pod's addresses once it has some. */
  readonly launcherOf: (podUID: string, limits: LauncherLimits) => Launcher
  readonly addressesOf: (podUID: string) => Promise<readonly string[]>
  /** libvirtd's cache for VMs of this type, as JSON; undefined while there is none. */
  readonly readCapabilities: (type: 'kvm' | 'qemu') => Promise<string | undefined>
  readonly network: NetworkClient
  readonly attachments: ServingPods
  readonly recordEvent: (vm: Vm, type: 'Normal' | 'Warning', reason: string, message: string) => void
  readonly log: Logger
  readonly clock: Clock
}

export interface Handler {
  readonly vms: Reflector<VirtualMachine>
  /** The uids of the pods of this node's VMs; undefined while the VMs are not known. */
  podsOfVms(): ReadonlySet<string> | undefined
  stop(): Promise<void>
}

/**
 * A round waits for its launcher and for the API server and costs only a socket meanwhile, so every VM of a full node
 * can have one. A namespace gets few, which bounds what its VMs together hold and write.
 */
const concurrency = 256
const namespaceConcurrency = 8

/** A launcher responds at once. One that did not gets a longer deadline the next time: it may be short of CPU. */
const shortestDeadlineMs = 1000
const longestDeadlineMs = 5000

/** When to look again for the budget of a launcher's updates. */
const lookAgainMs = 1000

/** How often to look for the volume of a launcher whose end the controller awaits: its removal sends no event. */
const endPollMs = 1000

/** An update of this many values counts as one more. */
const valuesPerWrite = 500
/** The manifest limits the handler to 320 MiB. */
const mostPendingBytes = 16 * 1024 * 1024

/**
 * Reconciles the VMs of one node: hands each to its launcher, and writes what the launcher reports into its status.
 *
 * Nothing depends on the handler's memory: a round starts from the stored VM and the launcher's response. An event of
 * the launcher only queues a round. A launcher that does not respond proves nothing; the controller watches its pod.
 *
 * A launcher can be hostile, so each VM has a budget of its own: one request at a time, bytes of responses and events,
 * rounds and updates per second. The VMs of a namespace share the budgets of the node; namespaces take turns. No
 * launcher delays the answer to a controller that awaits its end: that is looked for beside the rounds.
 */
export function startHandler(options: HandlerOptions): Handler {
  const { kube, nodeName, recordEvent, log, clock } = options
  const vms = startReflector({
    kube,
    resource: cachedVms,
    log,
    fieldSelector: `status.nodeName=${nodeName}`,
    slim: slimVm,
  })
  const namespaceOf = (key: string) => key.slice(0, key.indexOf('/'))
  const groups = { of: namespaceOf, concurrency: namespaceConcurrency }
  const queue = startWorkQueue({ reconcile: unlessOutdated(reconcile), concurrency, groups, log, clock })
  const limitedLog = createLimitedLog(log, clock)
  const ends = startWorkQueue({ reconcile: unlessOutdated(answerEnd), concurrency, groups, log, clock })
  /** Launchers fail and refuse as often as they like. */
  const logFailure = (key: string, error: unknown, message: string, more: object = {}) =>
    limitedLog(namespaceOf(key), { vm: key, err: loggedError(error), ...more }, message)
  const pending = createFairLimit(mostPendingBytes)
  const queueRound = (key: string, afterMs: number) => (afterMs > 0 ? queue.addAfter(key, afterMs) : queue.add(key))
  const announce = (key: string) => queue.add(key)
  const stopping = new AbortController()
  const writer = createStatusWriter({ kube, vms, announce, signal: stopping.signal, clock })
  const wholeVms = createWholeVms({ kube, nodeName, signal: stopping.signal, clock })
  const taps = createVmTaps({ ...options, wholeVms, queueRound })
  const sending = createSending({ ...options, queueRound })
  const observer = createObserver({ ...options, plan: planned, logFailure, limitedLog })
  const startGuest = createGuestStart({ sending, taps, observer, wholeVms, newest, plan: planned })
  /** By the VM's uid. */
  const tracked = new Map<string, Tracked>()

  vms.onChange((change) => {
    if (change.kind === 'deleted') forget(change.object)
    const key = keyOf(change.object.metadata)
    queue.add(key)
    if (isEndAwaited(change.object)) ends.add(key)
  })

  /** Also of a finished VM: that its guest has ended is what its launcher claims. */
  async function answerEnd(key: string): Promise<void> {
    const stored = vms.store.get(key)
    const podUID = stored?.status?.podUID
    if (stored === undefined || podUID === undefined) return
    const vm = writer.newest(stored)
    if (!isEndAwaited(vm)) return
    const limits = { ...track(vm).limits, deadlineMs: shortestDeadlineMs }
    const hasVolume = await options.launcherOf(podUID, limits).hasVolume()
    if (hasVolume) ends.addAfter(key, endPollMs)
    const statusOf = (of: Vm) => podEndedStatus(of, hasVolume, timestamp(clock))
    const update = (of: Vm) => writer.answer(of, statusWriteOf(of, statusOf(of)))
    if (!isChanged(vm, statusOf(vm))) return
    // The other conditions of a finished VM are not in the cache, and are written with this one.
    if (!isFinished(vm)) await update(vm)
    else
      await wholeVms.useFinished(vm, async (whole) => {
        const isSameQuestion = isEndAwaited(whole) && whole.status?.podUID === podUID
        return isSameQuestion ? update(whole) : whole
      })
  }

  async function reconcile(key: string): Promise<void> {
    const stored = vms.store.get(key)
    const podUID = stored?.status?.podUID
    if (stored === undefined || podUID === undefined) return
    const vm = writer.newest(stored)
    const entry = track(vm)
    entry.isHinted = false
    const debtMs = entry.limits.responses.take(0)
    if (debtMs > 0) return queue.addAfter(key, debtMs)
    const deadlineMs = Math.min(Math.max(since(entry.silentSince, clock), shortestDeadlineMs), longestDeadlineMs)
    const round = { key, podUID, entry, launcher: options.launcherOf(podUID, { ...entry.limits, deadlineMs }) }
    try {
      const onReport = (report: DomainReport) => {
        follow(round)
        if (isAlive(report)) void taps.check(round, vm)
      }
      const request = () => round.launcher.report()
      const found = await observer.find(round, vm)
      await perform(round, vm, await observer.observe(round, vm, { found, request, onReport }))
    } finally {
      // It may have been deleted meanwhile, and no other event would come for it.
      if (vms.store.get(key)?.metadata.uid !== vm.metadata.uid) forget(vm)
    }
  }

  function planned(round: Round, vm: Vm, observation: Observation): readonly Step[] {
    return stepsOf(vm, observation, new Date(clock.now()).toISOString(), (cost, asks) => {
      if (cost !== undefined) return mayUpdate(round, vm, cost)
      // A launcher that is late, or refuses what it is asked for, is reported next.
      if (observation.kind === 'report' && !asks) writer.leave(vm)
      return true
    })
  }

  function newest({ key }: Round, { metadata: { uid } }: Vm): Vm | undefined {
    const cached = vms.store.get(key)
    return cached?.metadata.uid === uid ? writer.newest(cached) : undefined
  }

  /** @param before the VM before the updates of this round */
  async function perform(round: Round, before: Vm, steps: readonly Step[], vm = before): Promise<void> {
    const { launcher } = round
    for (const [index, action] of steps.entries()) {
      log.debug({ vm: round.key, uid: vm.metadata.uid, action: action.do }, 'performing')
      let failure: Observation | undefined
      switch (action.do) {
        case 'startGuest':
          return perform(round, vm, await startGuest(round, vm))
        case 'changeMedia': {
          if (sending.mustWait(round, vm)) break
          const change = (whole: Vm) =>
            observer.failureOf(round, () => sending.changeMedia(round, whole), 'to change media')
          failure = await wholeVms.use(vm, change)
          break
        }
        case 'attachVolumes':
          failure = await observer.failureOf(round, () => launcher.putVolumes(action.volumes), 'to attach volumes')
          break
        case 'shutDownGuest':
          failure = await observer.failureOf(round, () => launcher.shutdown(action.gracePeriodSeconds))
          break
        case 'freezeGuest':
          failure = await observer.failureOf(round, () => launcher.freeze(action.id), 'to freeze the guest')
          break
        case 'thawGuest':
          failure = await observer.failureOf(round, () => launcher.thaw(action.id), 'to thaw the guest')
          break
        case 'releaseLauncher':
          stopFollowing(round.entry)
          // The VM before its end: less of a finished one is in the cache.
          void taps.release(round, before)
          // The launcher exits by itself after some seconds, so an error changes nothing.
          await launcher
            .final()
            .catch((error: unknown) => logFailure(round.key, error, 'could not release the launcher'))
          break
        case 'updateStatus':
          // In a frame of its own: this one keeps the bytes, and a launcher can hold up what follows for seconds.
          return perform(round, before, steps.slice(index + 1), await writer.write(vm, action.write))
        case 'recordEvent':
          recordEvent(vm, action.type, action.reason, action.message)
          break
        case 'requeueAfter':
          queue.addAfter(round.key, action.afterMs)
      }
      if (failure !== undefined) return perform(round, vm, planned(round, vm, failure))
    }
  }

  /**
   * Whether the update can begin now; otherwise another round follows. Nothing else of this one waits for the budget of
   * its launcher, or for the updates of other VMs.
   */
  function mayUpdate({ key, entry: { writes } }: Round, vm: Vm, cost: UpdateCost): boolean {
    if (writes.waitMs() > 0) {
      queue.addAfter(key, lookAgainMs)
      return false
    }
    if (!writer.mayBegin(vm, cost)) return false
    writes.take(1 + Math.floor(cost.values / valuesPerWrite))
    return true
  }

  /** Each event of the launcher, and the end of its event stream, queues a round. */
  function follow({ key, entry, launcher }: Round): void {
    if (entry.following !== undefined || clock.monotonic() < entry.followAtMs) return
    const stop = new AbortController()
    entry.following = stop
    launcher
      .watch(stop.signal, (event) => onEvent(key, entry, event))
      .catch((error: unknown) => {
        if (stop.signal.aborted) return
        entry.following = undefined
        if (error instanceof InvalidLauncherResponse) entry.misbehavior = error.message
        const waitMs = entry.reopening.next()
        entry.followAtMs = clock.monotonic() + waitMs
        logFailure(key, error, 'the event stream of the launcher ended', { waitMs })
        queue.addAfter(key, waitMs)
      })
  }

  function onEvent(key: string, entry: Tracked, event: LauncherEvent): void {
    // The first heartbeat comes after 10 s: a stream that lasts that long keeps to the contract.
    if (event === 'heartbeat' && entry.misbehavior === undefined) return
    if (event === 'heartbeat') entry.misbehavior = undefined
    if (entry.isHinted) return
    entry.isHinted = true
    const waitMs = entry.hints.take()
    if (waitMs > 0) queue.addAfter(key, waitMs)
    else queue.add(key)
  }

  function track({ metadata: { uid, namespace = '' } }: Vm): Tracked {
    const known = tracked.get(uid)
    if (known) return known
    const entry = newTracked(namespace, pending, clock)
    tracked.set(uid, entry)
    return entry
  }

  function stopFollowing(entry: Tracked): void {
    entry.following?.abort()
    entry.following = undefined
  }

  function forget(vm: Vm): void {
    const { metadata } = vm
    const entry = tracked.get(metadata.uid)
    if (entry !== undefined) stopFollowing(entry)
    tracked.delete(metadata.uid)
    writer.forget(vm)
  }

  return {
    vms,
    podsOfVms: () =>
      vms.hasSynced() ? new Set(vms.store.list().flatMap(({ status }) => status?.podUID ?? [])) : undefined,
    async stop() {
      stopping.abort(new Error('the handler was stopped'))
      await vms.stop()
      await Promise.all([queue.drain(), ends.drain()])
      for (const entry of tracked.values()) stopFollowing(entry)
    },
  }
}

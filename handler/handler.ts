import { isFinished, type VirtualMachine } from '../api/virtual-machine.ts'
import { unlessOutdated } from '../runtime/api-error.ts'
import { createBackOff, type BackOff } from '../runtime/back-off.ts'
import { createBucket, type Bucket } from '../runtime/bucket.ts'
import { timestamp, type Clock } from '../runtime/clock.ts'
import { createFairLimit } from '../runtime/fair-limit.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { createLanes, type Lanes } from '../runtime/lanes.ts'
import { InvalidLauncherResponse, type DomainReport } from '../runtime/launcher-api.ts'
import { createLimitedLog } from '../runtime/limited-log.ts'
import type { Logger } from '../runtime/log.ts'
import { isEndAwaited } from '../runtime/pod-end.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import { keyOf, type Persisted } from '../runtime/resource.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import { attachmentPodsOf, noSockets, type AttachmentSockets } from './attachment.ts'
import { placeSockets, type ServingPods } from './attachment-sockets.ts'
import {
  LauncherAbsent,
  LauncherRefusal,
  LauncherUnreachable,
  type Launcher,
  type LauncherEvent,
  type LauncherLimits,
} from './launcher.ts'
import { loggedError } from './launcher-log.ts'
import type { NetworkClient } from './network-client.ts'
import { mayStart, type Observation } from './plan.ts'
import { bytesPerValue, cachedVms, launcherVms, slimVm, type CachedVm } from './slim-vm.ts'
import { countValues } from './domain-size.ts'
import { generationOf, isAlive, isChanged, podEndedStatus } from './status.ts'
import { statusWriteOf, type UpdateCost } from './status-write.ts'
import { createStatusWriter } from './status-writer.ts'
import { stepsOf, type Step } from './steps.ts'
import { createVmTaps, newTapState, tapIPsOf, type TapState } from './vm-taps.ts'

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

/**
 * A VM's life has a dozen events and updates. After this burst, a launcher causes one round and one update a second.
 */
const mostAtOnce = 20
const perSecond = 1
const lookAgainMs = 1000

/** How often to look for the volume of a launcher whose end the controller awaits: its removal sends no event. */
const endPollMs = 1000

/**
 * A VM's life has a dozen responses, of 60 KiB and 4,000 values for a domain of 100 devices; an event is 200 bytes, and
 * 60 KiB from an older launcher.
 */
const responseBytes = { perSecond: 64 * 1024, burst: 4 * 1024 * 1024 }
/** An update of this many values counts as one more. */
const valuesPerWrite = 500
const eventBytes = { perSecond: 64 * 1024, burst: 1024 * 1024 }
/** The manifest limits the handler to 320 MiB. */
const mostPendingBytes = 16 * 1024 * 1024

/**
 * VMs too large for the cache that are read at once. With its response and what is sent of it, one of a megabyte takes
 * up to 10 MiB, for as long as its launcher withholds its answer; those that are late give their places to as many.
 */
const wholeVmLimits = { all: 4, perNamespace: 2 }

/** A launcher that is short of CPU takes a second for a megabyte, and is not slow for that. */
const slowWholeMs = 2000

/** The first version of a launcher that accepts `PUT /capabilities`. */
const withCapabilities = 2

/** The back-off before a closed event stream is reopened. */
const reopening = { firstMs: 1000, longestMs: 30_000, healthyMs: 60_000 }

/** The back-off before a generation of the VM that the launcher accepted, but does not report, is sent again. */
const sending = { firstMs: 1000, longestMs: 30_000, healthyMs: 60_000 }

/** What is known about a VM beside its object. The handler can lose all of it. */
interface Tracked {
  readonly limits: Omit<LauncherLimits, 'deadlineMs'>
  /** The rounds that its launcher's events can still cause. */
  readonly hints: Bucket
  /**
   * The status updates that its launcher can still cause. Each brings a round, in which it can respond differently
   * again.
   */
  readonly writes: Bucket
  readonly reopening: BackOff
  readonly sending: BackOff
  /** The generation of the VM that its launcher accepted last, which it has not necessarily reported. */
  accepted: { readonly generation: number; readonly sendAgainAtMs: number } | undefined
  /** An event has queued a round that has not begun. */
  isHinted: boolean
  /** Since when, by the monotonic clock, its launcher has not reported. */
  silentSince: number | undefined
  /** Since when its pod has had no launcher socket. */
  absentSince: number | undefined
  /** Since when its launcher has been starting the guest. */
  startingSince: number | undefined
  /** The version of the contract that its launcher stated last; 0 before, and of a launcher that states none. */
  launcherVersion: number
  /** How its launcher's events violate the contract. */
  misbehavior: string | undefined
  readonly taps: TapState
  /** Open while its launcher's events are followed; abort it to stop that. */
  following: AbortController | undefined
  /** The event stream is not reopened before this time. */
  followAtMs: number
}

/** One VM and its launcher during a round. */
interface Round {
  readonly key: string
  readonly podUID: string
  readonly entry: Tracked
  readonly launcher: Launcher
}

/** What the handler finds on the node before it asks a launcher. An error matters only if the launcher responds. */
type Found = { readonly podIPs: readonly string[]; readonly sockets: AttachmentSockets } | { readonly error: unknown }

interface Question {
  readonly found: Found
  readonly request: () => Promise<DomainReport>
  readonly onReport?: (report: DomainReport) => void
}

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
  const taps = createVmTaps({ ...options, withWhole, queueRound })
  const wholeVms = createLanes(wholeVmLimits, clock, slowWholeMs)
  /** Of their own: launchers can hold the others for seconds. */
  const ending = createLanes(wholeVmLimits, clock)
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
      await inTurn(ending, vm, async (whole) => {
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
    const deadlineMs = Math.min(Math.max(since(entry.silentSince), shortestDeadlineMs), longestDeadlineMs)
    const round = { key, podUID, entry, launcher: options.launcherOf(podUID, { ...entry.limits, deadlineMs }) }
    try {
      const onReport = (report: DomainReport) => {
        follow(round)
        if (isAlive(report)) void taps.check(round, vm)
      }
      const request = () => round.launcher.report()
      await perform(round, vm, await observe(round, vm, { found: await find(round, vm), request, onReport }))
    } finally {
      // It may have been deleted meanwhile, and no other event would come for it.
      if (vms.store.get(key)?.metadata.uid !== vm.metadata.uid) forget(vm)
    }
  }

  /**
   * Runs `use` with the VM and its whole spec; undefined if it was deleted. It is to be used for nothing else, and not
   * kept: a large one takes megabytes, and waits for its turn.
   */
  async function withWhole<T>(vm: Vm, use: (whole: Vm) => Promise<T>): Promise<T | undefined> {
    const { weight: _weight, ...whole } = vm
    return vm.isPartial === true ? inTurn(wholeVms, vm, use) : use(whole)
  }

  function inTurn<T>(lanes: Lanes, vm: Vm, use: (whole: Vm) => Promise<T>): Promise<T | undefined> {
    const work = async () => {
      const whole = await readWhole(vm)
      return whole === undefined ? undefined : use(whole)
    }
    return lanes.run(vm.metadata.namespace ?? '', work, stopping.signal)
  }

  /** Listed, since a handler must not read the VMs of other nodes. */
  async function readWhole({ metadata: { namespace = '', name, uid } }: Vm): Promise<Vm | undefined> {
    const fieldSelector = `metadata.name=${name},status.nodeName=${nodeName}`
    const { items } = await kube.list(launcherVms, { namespace, fieldSelector })
    return items.find(({ metadata }) => metadata.uid === uid)
  }

  /** A launcher can refuse a VM, or accept it and report that it has not: what it receives counts like what it sends. */
  function sendTo({ entry, launcher }: Round, whole: Vm): Promise<DomainReport> {
    entry.limits.responses.take(JSON.stringify(whole).length)
    return launcher.put(whole)
  }

  /** Whether its launcher accepted this generation too recently to be sent it again; another round follows then. */
  function mustWaitToSend({ key, entry: { accepted } }: Round, vm: Vm): boolean {
    if (accepted?.generation !== generationOf(vm)) return false
    const waitMs = accepted.sendAgainAtMs - clock.monotonic()
    if (waitMs > 0) queue.addAfter(key, waitMs)
    return waitMs > 0
  }

  function noteAccepted({ entry }: Round, vm: Vm): void {
    const sendAgainAtMs = clock.monotonic() + entry.sending.next()
    entry.accepted = { generation: generationOf(vm), sendAgainAtMs }
  }

  /** A launcher that accepts the VM and still waits for one would be handed it for ever. */
  async function putVm(round: Round, vm: Vm): Promise<DomainReport> {
    const report = await sendTo(round, vm)
    if (report.phase === 'Waiting') throw new InvalidLauncherResponse('it accepted the VM, but still waits for one')
    noteAccepted(round, vm)
    return report
  }

  const planned = (round: Round, vm: Vm, observation: Observation): readonly Step[] =>
    stepsOf(vm, observation, new Date(clock.now()).toISOString(), (cost, asks) => {
      if (cost !== undefined) return mayUpdate(round, vm, cost)
      // A launcher that is late, or refuses what it is asked for, is reported next.
      if (observation.kind === 'report' && !asks) writer.leave(vm)
      return true
    })

  /** @param before the VM before the updates of this round */
  async function perform(round: Round, before: Vm, steps: readonly Step[], vm = before): Promise<void> {
    const { launcher } = round
    for (const [index, action] of steps.entries()) {
      log.debug({ vm: round.key, uid: vm.metadata.uid, action: action.do }, 'performing')
      let failure: Observation | undefined
      switch (action.do) {
        case 'startGuest': {
          if (mustWaitToSend(round, vm) || taps.mustWait(round)) return undefined
          const prepared = await taps.prepare(round, vm)
          if (prepared === 'pending') return undefined
          if ('kind' in prepared) failure = prepared
          else if (prepared.length > 0) failure = await failureOf(round, () => launcher.putNetwork(prepared))
          if (failure !== undefined) break
          await sendCapabilities(round, vm)
          const found = await find(round, vm)
          // Its launcher may have withheld the responses so far for seconds.
          const cached = vms.store.get(round.key)
          if (cached?.metadata.uid !== vm.metadata.uid) return undefined
          const started = await withWhole(writer.newest(cached), async (whole) =>
            whole.status?.podUID === round.podUID && mayStart(whole)
              ? observe(round, vm, { found, request: () => putVm(round, whole) })
              : undefined,
          )
          // It was deleted meanwhile: its event queues another round.
          return started === undefined ? undefined : perform(round, vm, started)
        }
        case 'changeMedia': {
          if (mustWaitToSend(round, vm)) break
          const change = async (whole: Vm) => {
            await sendTo(round, whole)
            noteAccepted(round, whole)
          }
          failure = await withWhole(vm, (whole) => failureOf(round, () => change(whole), 'to change media'))
          break
        }
        case 'attachVolumes':
          failure = await failureOf(round, () => launcher.putVolumes(action.volumes), 'to attach volumes')
          break
        case 'shutDownGuest':
          failure = await failureOf(round, () => launcher.shutdown(action.gracePeriodSeconds))
          break
        case 'freezeGuest':
          failure = await failureOf(round, () => launcher.freeze(action.id), 'to freeze the guest')
          break
        case 'thawGuest':
          failure = await failureOf(round, () => launcher.thaw(action.id), 'to thaw the guest')
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

  /** It only saves time, so a failure is not one of the VM. */
  async function sendCapabilities({ key, entry, launcher }: Round, { spec }: Vm): Promise<void> {
    if (entry.launcherVersion < withCapabilities) return
    try {
      const text = await options.readCapabilities(spec.domain.type === 'kvm' ? 'kvm' : 'qemu')
      if (text !== undefined) await launcher.putCapabilities(text)
    } catch (error) {
      log.debug({ vm: key, err: error }, 'could not send the capabilities of the node')
    }
  }

  /** What is known of a launcher beside its response. */
  async function find({ podUID }: Round, vm: Vm): Promise<Found> {
    const hasPods = attachmentPodsOf(vm).length > 0
    try {
      return {
        podIPs: await options.addressesOf(podUID),
        sockets: hasPods ? await placeSockets(options.attachments, { vm, podUID, limitedLog }) : noSockets,
      }
    } catch (error) {
      return { error }
    }
  }

  /**
   * What is to be done after the launcher's response. Nothing is awaited while that is in memory: 256 of them, at 2 MB
   * with the status that follows from each, are too many.
   */
  async function observe(round: Round, vm: Vm, { found, request, onReport }: Question): Promise<readonly Step[]> {
    const { entry } = round
    try {
      const report = await request()
      entry.limits.responses.take(countValues(report) * bytesPerValue)
      mustBeAbout(vm, report)
      entry.absentSince = undefined
      entry.launcherVersion = report.version ?? 0
      // A launcher that waits for its VM can still refuse it for long.
      if (report.phase !== 'Waiting') entry.silentSince = undefined
      entry.startingSince = report.phase === 'Defined' ? (entry.startingSince ?? clock.monotonic()) : undefined
      if ('error' in found) throw found.error
      onReport?.(report)
      const { podIPs, sockets } = found
      return planned(round, vm, {
        kind: 'report',
        report,
        startingForMs: since(entry.startingSince),
        podIPs,
        tapIPs: tapIPsOf(entry.taps),
        ...(entry.misbehavior === undefined ? {} : { misbehavior: entry.misbehavior }),
        ...(isAlive(report) ? { sockets } : {}),
      })
    } catch (error) {
      return planned(round, vm, observationOf(entry, error))
    }
  }

  /**
   * The failure of a request to be planned for, if there was one.
   * @param refusable what the launcher can refuse without a change: the guest has just ended, or is being started, and
   *   an event of the launcher follows
   */
  async function failureOf(
    { key, entry }: Round,
    request: () => Promise<void>,
    refusable?: string,
  ): Promise<Observation | undefined> {
    try {
      await request()
      return undefined
    } catch (error) {
      if (refusable === undefined || !(error instanceof LauncherRefusal)) return observationOf(entry, error)
      logFailure(key, error, `the launcher refused ${refusable}`)
      return undefined
    }
  }

  /** @throws any error that is not the launcher's */
  function observationOf(entry: Tracked, error: unknown): Observation {
    if (error instanceof LauncherAbsent) {
      entry.absentSince ??= clock.monotonic()
      return { kind: 'absent', absentForMs: since(entry.absentSince) }
    }
    entry.absentSince = undefined
    entry.silentSince ??= clock.monotonic()
    const silentForMs = since(entry.silentSince)
    if (error instanceof LauncherRefusal) {
      const { reason, message } = error
      return { kind: 'refused', reason, message, silentForMs, launcherVersion: entry.launcherVersion }
    }
    if (error instanceof InvalidLauncherResponse) return { kind: 'misbehaving', message: error.message, silentForMs }
    if (error instanceof LauncherUnreachable) return { kind: 'unreachable', message: error.message, silentForMs }
    throw error
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

  const since = (startMs: number | undefined): number => (startMs === undefined ? 0 : clock.monotonic() - startMs)

  function track({ metadata: { uid, namespace = '' } }: Vm): Tracked {
    const known = tracked.get(uid)
    if (known) return known
    const bytes = (of: { perSecond: number; burst: number }) => createBucket(of.perSecond, of.burst, clock)
    const entry: Tracked = {
      limits: {
        responses: bytes(responseBytes),
        events: bytes(eventBytes),
        hold: (end) => pending.hold(namespace, end),
      },
      hints: createBucket(perSecond, mostAtOnce, clock),
      writes: createBucket(perSecond, mostAtOnce, clock),
      reopening: createBackOff({ ...reopening, clock, random: () => 0 }),
      sending: createBackOff({ ...sending, clock, random: () => 0 }),
      accepted: undefined,
      isHinted: false,
      silentSince: undefined,
      absentSince: undefined,
      startingSince: undefined,
      launcherVersion: 0,
      misbehavior: undefined,
      taps: newTapState(),
      following: undefined,
      followAtMs: 0,
    }
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

function mustBeAbout({ metadata: { uid } }: Vm, { vmUID, phase }: DomainReport): void {
  if (vmUID === uid || (vmUID === '' && phase === 'Waiting')) return
  throw new InvalidLauncherResponse('its report is about another VirtualMachine')
}

import type { Domain } from '../api/domain/domain.ts'
import { shorten } from '../api/shorten.ts'
import type { VirtualMachineSpec, VirtualMachine } from '../api/virtual-machine.ts'
import type { Clock } from '../runtime/clock.ts'
import {
  type DomainReport,
  type JsonObject,
  type LauncherExit,
  type SpecDrift,
  type VolumeRequest,
  fillingDisk,
  launcherVersion,
  maxTextLength,
} from '../runtime/launcher-api.ts'
import type { AttachedVolumes } from './attached-volumes.ts'
import type { OnProgress } from './claim-disk.ts'
import type { GrowDisks } from './disk-growth.ts'
import { type GuestAgent, isAgentOpen, withoutChannelStates } from './guest-agent.ts'
import type { Client } from './libvirt/client.ts'
import type { LibvirtEvent } from './libvirt/connection.ts'
import {
  type DomainRef,
  type DomainState,
  defineDomain,
  isPowerOff,
  readState,
  readXml,
  resumeDomain,
  startDomain,
} from './libvirt/domain.ts'
import { LibvirtError } from './libvirt/errors.ts'
import { Ending } from './ending.ts'
import type { GuestFreeze } from './freeze.ts'
import { pausedMessage } from './full-disk.ts'
import type { Identity } from './identity.ts'
import { lockedDiskMessage } from './locked-disk.ts'
import type { Disk, Media } from './media.ts'
import { Monitor } from './monitor.ts'
import { type MemoryUse, outOfMemoryMessage } from './out-of-memory.ts'
import type { Logger } from '../runtime/log.ts'
import { hasEndingProbe } from '../runtime/probe.ts'
import { type PhaseReport, phaseOf } from './phase.ts'
import { Refused } from './refused.ts'
import { resumeWithRoom } from './resume.ts'

/** How long the launcher waits for the handler to read the final report. */
export const finalHoldMs = 15_000

/**
 * The state is also read at this interval: a restarted daemon that finds QEMU dead sends no event, and the last known
 * state was "running".
 */
const resyncMs = 10_000

/** QEMU starts in less than a second, unless it waits for the server of a disk. */
const slowStartMs = 10_000

/** If libvirtd is lost before the guest runs, the start is retried at this interval. */
const retryStartMs = 1000

/** The kubelet's own default. */
const defaultGraceSeconds = 30

/** The dependencies of a VM's life. */
interface LifeOptions {
  readonly client: Client
  readonly clock: Clock
  /** The uid of the VM that this launcher was created for, if it is known. */
  readonly vmUID?: string
  /**
   * Prepares the volumes; returns the domain to define. Calls `onProgress` with a message while it fills a disk.
   * @throws Refused
   */
  readonly prepare: (spec: VirtualMachineSpec, identity: Identity, onProgress: OnProgress) => Promise<Domain>
  /** Called before QEMU starts; `finishTpms` when libvirt has made the TPMs, before the guest runs. */
  readonly beginTpms: (domain: Domain) => Promise<void>
  readonly finishTpms: (domain: Domain) => Promise<void>
  /** Called when QEMU has started, and awaited before the guest runs. Must not reject. */
  readonly onPrepared: () => Promise<void>
  readonly readMemoryUse: () => Promise<MemoryUse>
  /** Whether these disks, by target, can be written again after they were full. */
  readonly hasRoom: (targets: readonly string[], domain: Domain) => Promise<boolean>
  /** The tags of the file systems that no process serves any more; `domain` is the live one. */
  readonly readLostFilesystems: (domain: JsonObject | undefined) => Promise<readonly string[]>
  readonly growDisks: GrowDisks
  readonly agent: GuestAgent
  readonly guestFreeze: GuestFreeze
  readonly media: Media
  readonly attachedVolumes: AttachedVolumes
  /** The disks of the VM, with files in place of the volumes that were prepared. */
  readonly renderDisks: (spec: VirtualMachineSpec) => readonly Disk[]
  readonly writeXml: (domain: Domain) => string
  /** Undefined if the XML has elements that the description does not have. */
  readonly readXml: (xml: string) => JsonObject | undefined
  readonly compare: (domain: Domain, inactiveXml: string) => SpecDrift[]
  readonly log: Logger
}

/**
 * The life of one VM in one libvirtd: define, start, observe, shut down, report. The VM is never started a second time.
 *
 * libvirt's state is read again on every hint and is the only source of truth. This class stores only what libvirt
 * cannot know: which VM this is, whether it was started, and what failed before it ran.
 */
export class Life {
  readonly #options: LifeOptions
  readonly #ending: Ending
  readonly #monitor: Monitor
  readonly #listeners = new Set<(report: DomainReport) => void>()
  readonly #ended = Promise.withResolvers<LauncherExit>()
  #vm: VirtualMachine | undefined
  /** How far a disk is filled. */
  #progress: { readonly message: string; readonly reason: string } | undefined
  /** The error of a start that is retried. */
  #trouble: string | undefined
  #dom: DomainRef | undefined
  /** The domain that was defined, with files in place of volumes. */
  #domain: Domain | undefined
  #wasStarted = false
  #hasPoweredOff = false
  #failure: { phase: 'Gone' | 'Shutoff'; reason: string; message: string } | undefined
  /** The kernel's count of processes killed for memory before QEMU was started. */
  #oomKillsBefore = 0
  /** Fields of a newer version that this launcher does not know. */
  #ignored: readonly SpecDrift[] = []
  #specDrift: SpecDrift[] | undefined
  /** The kubelet has requested the end of the pod. */
  #isTerminated = false
  #last: DomainReport | undefined
  #reading: Promise<DomainReport> | undefined
  #next: Promise<DomainReport> | undefined
  /** Its end has been reported. */
  #isOver = false

  constructor(options: LifeOptions) {
    this.#options = options
    const { client, clock, log, readXml: parse, agent } = options
    const onChange = () => this.hint()
    const onDescribed = (dom: DomainRef, domain: JsonObject | undefined) => agent.observe(dom, isAgentOpen(domain))
    this.#ending = new Ending({ client, clock, log, isOver: () => this.#isOver, onChange })
    this.#monitor = new Monitor({ client, clock, log, readXml: parse, onDescribed, onChange })
  }

  /** Resolves when the launcher can exit: when the final report was read (`final`), or 15 s after it. */
  get ended(): Promise<LauncherExit> {
    return this.#ended.promise
  }

  /** Whether it has been given its VM. */
  get hasVm(): boolean {
    return this.#vm !== undefined
  }

  /** Undefined until it has been given its VM. */
  get spec(): VirtualMachineSpec | undefined {
    return this.#vm?.spec
  }

  /** Whether the kubelet has requested the end of a pod with a probe that ends it, which may be the reason. */
  get isTerminatedWithProbe(): boolean {
    return this.#isTerminated && this.#vm !== undefined && hasEndingProbe(this.#vm.spec)
  }

  /** The defined domain. */
  get dom(): DomainRef | undefined {
    return this.#dom
  }

  /** The live domain, or the previous one while QEMU hangs. */
  async readDomain(): Promise<JsonObject | undefined> {
    return this.#dom && this.#monitor.readDomain(this.#dom)
  }

  /**
   * Accepts the VM and begins to start it, unless it was accepted before. Then, a later generation of it can have other
   * media. Does not wait for libvirt: later reports contain the progress of the start, and a refusal by libvirt or by a
   * volume as `exit`. Returns the newest report.
   * @param ignored fields of the VM that this launcher does not know
   * @throws Refused if the launcher has another VM
   */
  accept(vm: VirtualMachine, ignored: readonly SpecDrift[] = []): DomainReport {
    const { uid, name } = vm.metadata
    if (uid === undefined || name === undefined) {
      throw new Refused('BadRequest', 'metadata.uid and metadata.name are required')
    }
    const ours = this.#vm?.metadata.uid ?? this.#options.vmUID ?? uid
    if (ours !== uid) {
      throw new Refused('OtherVirtualMachine', `this launcher belongs to the VirtualMachine with uid ${ours}`)
    }
    const { generation = 1 } = vm.metadata
    if (this.#last?.phase === 'Running' && this.#dom !== undefined && this.#options.media.isLater(generation)) {
      this.#options.media.change(this.#dom, generation, () => this.#options.renderDisks(vm.spec))
    }
    if (this.#vm === undefined) {
      this.#vm = vm
      this.#ignored = ignored
      void this.#begin(vm, { uid, name })
    }
    return this.#last?.vmUID === uid ? this.#last : this.#starting(uid)
  }

  /**
   * Reads the current state. Reads do not overlap: a call during a read gets the result of the next one, because the
   * current read may have begun before the change that the caller is waiting for.
   * @throws ConnectionLost, DeadlineExceeded
   */
  report(): Promise<DomainReport> {
    if (this.#reading === undefined) {
      this.#reading = this.#read().finally(() => (this.#reading = undefined))
      return this.#reading
    }
    this.#next ??= this.#reading.then(
      () => this.#readNext(),
      () => this.#readNext(),
    )
    return this.#next
  }

  /** Reads the state again, because it may have changed, perhaps with this event. */
  hint(event?: LibvirtEvent): void {
    if (event !== undefined && isPowerOff(event)) this.#hasPoweredOff = true
    this.report().catch((error: unknown) => this.#options.log.warn({ err: error }, 'could not read the state'))
  }

  /**
   * Presses the power button until the guest is off, and destroys the domain after the grace period. A later call can
   * only shorten the period. Does not wait for libvirt.
   * @throws Refused if there is no domain yet
   */
  shutdown(gracePeriodSeconds: number): void {
    // A guest that cannot write does not power off.
    this.#options.guestFreeze.end()
    this.#ending.shutdown(this.#mustHaveDomain(), gracePeriodSeconds)
  }

  /**
   * Ends QEMU without waiting for it; a failure is logged, and the attempt repeated until the domain has ended.
   * @throws Refused if there is no domain yet
   */
  destroy(): void {
    void this.#ending.destroy(this.#mustHaveDomain())
  }

  /**
   * Asks the agent to freeze the file systems of the guest. Does not wait; later reports contain the outcome.
   * @param id of the request: repeating it has no effect
   * @throws Refused if the guest does not run
   */
  freeze(id: string): void {
    const dom = this.#mustHaveDomain()
    if (this.#last?.phase !== 'Running') throw new Refused('NotReady', 'the guest does not run')
    this.#options.guestFreeze.freeze(dom, id)
  }

  /** Ends the freezing that was requested with this id. */
  thaw(id: string): void {
    this.#options.guestFreeze.thaw(id)
  }

  /**
   * Requests that exactly these volumes are attached. Does not wait; later reports contain the outcome.
   * @throws Refused if the guest does not run
   */
  attach(volumes: readonly VolumeRequest[]): void {
    const dom = this.#mustHaveDomain()
    if (this.#last?.phase !== 'Running') throw new Refused('NotReady', 'the guest does not run')
    this.#options.attachedVolumes.request(dom, volumes)
  }

  /** The kubelet ends the pod: shuts down with the grace period of the spec. */
  terminate(): void {
    if (this.#isOver) return
    this.#isTerminated = true
    if (this.#dom === undefined) return this.#ended.resolve('Failed')
    this.shutdown(this.#vm?.spec.terminationGracePeriodSeconds ?? defaultGraceSeconds)
  }

  /** The handler has read the end. Ignored before the end. */
  final(): void {
    if (this.#last?.exit !== undefined) this.#ended.resolve(this.#last.exit)
  }

  /** Calls `listener` with each later change. Returns a function that unsubscribes it. */
  subscribe(listener: (report: DomainReport) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async #begin(vm: VirtualMachine, identity: Identity): Promise<void> {
    const { clock, log } = this.#options
    try {
      await this.#define(vm, identity)
      this.#trouble = undefined
      this.#resync()
    } catch (error) {
      this.#progress = undefined
      const message = shorten(error instanceof Error ? error.message : String(error), maxTextLength)
      if (error instanceof Refused) {
        const phase = this.#dom === undefined ? 'Gone' : 'Shutoff'
        this.#failure = this.#ending.isDestroyRequested
          ? { phase, reason: 'destroyed', message: this.#ending.message(this.#isTerminated) }
          : { phase, reason: lowerFirst(error.reason), message }
      } else {
        // Neither libvirt nor a volume refused: the cause is temporary.
        log.warn({ err: error, retryMs: retryStartMs }, 'could not start the VM; retrying')
        this.#trouble = message
        clock.after(retryStartMs, () => void this.#begin(vm, identity))
      }
    }
    this.hint()
  }

  async #define(vm: VirtualMachine, identity: Identity): Promise<void> {
    const { client, clock, prepare, writeXml, compare, log } = this.#options
    const domain = await prepare(vm.spec, identity, (message, reason = fillingDisk) => {
      this.#progress = { message, reason }
      this.hint()
    })
    this.#progress = undefined
    this.#domain = domain
    const beginMs = clock.monotonic()
    this.#dom = await refusedAs('DefineRefused', () => defineDomain(client, writeXml(domain)))
    log.info({ defineMs: Math.round(clock.monotonic() - beginMs) }, 'defined the domain')
    const inactive = await readXml(client, this.#dom, { inactive: true })
    if (inactive !== undefined) this.#specDrift = [...this.#ignored, ...compare(domain, inactive)]
    if (this.#specDrift !== undefined && this.#specDrift.length > 0) {
      log.warn({ specDrift: this.#specDrift }, 'the domain differs from the spec')
    }
    await this.#start(this.#dom, domain)
  }

  #resync(): void {
    this.#options.clock.after(resyncMs, () => {
      if (this.#isOver) return
      this.hint()
      const [vm, dom, domain] = [this.#vm, this.#dom, this.#domain]
      if (vm !== undefined && dom !== undefined && domain !== undefined && this.#last?.phase === 'Running') {
        void this.#monitor.ping(dom)
        void this.#options.growDisks(dom, domain, vm.spec)
      }
      void this.#resume()
      this.#resync()
    })
  }

  async #resume(): Promise<void> {
    if (this.#dom === undefined || this.#domain === undefined) return
    if (await resumeWithRoom(this.#options, this.#dom, this.#domain, this.#monitor.diskErrors)) this.hint()
  }

  /**
   * Starts only a domain that never ran. If libvirtd was lost during a previous start, or it took longer than its
   * deadline, the domain may have run and ended since, or QEMU may still start or wait for the guest to be resumed.
   * @throws Error if it is to be tried again
   */
  async #start(dom: DomainRef, domain: Domain): Promise<void> {
    const state = await readState(this.#options.client, dom)
    if (state?.state === 'paused' && state.reason === 'startingUp') throw new Error('QEMU is still starting')
    if (state?.state === 'shutoff' && state.reason === 'unknown') await this.#startPaused(dom, domain)
    else if (state?.state !== 'paused' || state.reason !== 'user') return this.#started()
    await this.#options.finishTpms(domain)
    await this.#options.onPrepared()
    await this.#startGuest(dom)
    this.#started()
  }

  /** Starts QEMU, but not the guest. */
  async #startPaused(dom: DomainRef, domain: Domain): Promise<void> {
    await this.#options.beginTpms(domain)
    this.#oomKillsBefore = (await this.#options.readMemoryUse()).oomKills
    const cancel = this.#options.clock.after(slowStartMs, () => {
      this.#trouble = 'QEMU is still starting; if the VM has network disks, their servers may not respond'
      this.hint()
    })
    try {
      await refusedAs('StartFailed', () => startDomain(this.#options.client, dom, { isPaused: true }))
    } catch (error) {
      // libvirt has removed what it has half made.
      if (error instanceof Refused) await this.#options.finishTpms(domain)
      const message = await this.#outOfMemory()
      if (message !== undefined) throw new Refused('OOMKilled', message, { cause: error })
      const locked = error instanceof Refused ? lockedDiskMessage(error.message, this.#vm?.spec ?? {}) : undefined
      throw locked === undefined ? error : new Refused('StartFailed', locked, { cause: error })
    } finally {
      cancel()
    }
  }

  async #startGuest(dom: DomainRef): Promise<void> {
    const { client } = this.#options
    try {
      await refusedAs('StartFailed', () => resumeDomain(client, dom))
    } catch (error) {
      // If QEMU has ended meanwhile, the state tells why.
      if (!(error instanceof Refused) || (await readState(client, dom))?.state === 'paused') throw error
    }
  }

  #started(): void {
    this.#wasStarted = true
    if (this.#vm === undefined) return
    this.#options.media.start(this.#vm.metadata.generation ?? 1, this.#options.renderDisks(this.#vm.spec))
  }

  #readNext(): Promise<DomainReport> {
    this.#next = undefined
    return this.report()
  }

  async #read(): Promise<DomainReport> {
    const { client, clock } = this.#options
    const uid = this.#vm?.metadata.uid ?? ''
    const base = { version: launcherVersion, vmUID: uid, observedAt: new Date(clock.now()).toISOString() }
    if (this.#failure !== undefined) {
      return this.#publish({ ...base, ...this.#failure, exit: 'Failed', ...this.#termination() })
    }
    if (this.#vm === undefined) return this.#publish({ ...base, phase: 'Waiting', reason: 'noVirtualMachine' })
    const dom = this.#dom
    if (dom === undefined || !this.#wasStarted) return this.#publish(this.#starting(uid))
    const state = await readState(client, dom)
    await this.#monitor.readDiskErrors(dom, state)
    const live = await this.#monitor.readDomain(dom)
    const domain = live && withoutChannelStates(live)
    const explained = await this.#explain(this.#phaseOf(state))
    const lost = explained.phase === 'Running' ? await this.#options.readLostFilesystems(live) : []
    const lostFilesystems = lost.length === 0 ? {} : { lostFilesystems: [...lost] }
    return this.#publish({ ...base, ...explained, ...lostFilesystems, ...this.#details(domain) })
  }

  /** To libvirt, a QEMU that the kernel killed for memory has crashed. */
  async #explain(end: PhaseReport): Promise<PhaseReport> {
    if (end.phase === 'Paused' && end.reason === 'ioerror' && this.#vm !== undefined) {
      return { ...end, message: pausedMessage(this.#monitor.diskErrors, this.#vm.spec) }
    }
    if (end.exit !== 'Failed') return end
    if (this.#ending.hasEnded(end)) {
      return { ...end, reason: 'destroyed', message: this.#ending.message(this.#isTerminated) }
    }
    const message = await this.#outOfMemory()
    return message === undefined ? end : { ...end, reason: 'OOMKilled', message }
  }

  /** Undefined if the kernel has not killed a process since QEMU was started. */
  async #outOfMemory(): Promise<string | undefined> {
    const use = await this.#options.readMemoryUse()
    return use.oomKills > this.#oomKillsBefore ? outOfMemoryMessage(use) : undefined
  }

  #starting(vmUID: string): DomainReport {
    const text = this.#progress?.message ?? this.#trouble
    const message = text === undefined ? {} : { message: text }
    const reason = this.#progress?.reason ?? 'starting'
    const observedAt = new Date(this.#options.clock.now()).toISOString()
    return { version: launcherVersion, vmUID, phase: 'Defined', reason, ...message, observedAt }
  }

  #phaseOf(state: DomainState | undefined): PhaseReport {
    // With `onPoweroff: restart`, the guest runs again.
    if (state?.state === 'running') this.#hasPoweredOff = false
    const report = phaseOf(state, {
      wasStarted: this.#wasStarted,
      isShuttingDown: this.#ending.isShuttingDown,
      hasPoweredOff: this.#hasPoweredOff,
    })
    // A reported end is final, even if libvirt's reason changes afterwards.
    return this.#last?.exit === undefined ? report : { ...report, exit: this.#last.exit }
  }

  #details(domain: JsonObject | undefined): Partial<DomainReport> {
    return {
      ...(domain === undefined ? {} : { domain }),
      ...(this.#specDrift === undefined ? {} : { specDrift: this.#specDrift }),
      ...this.#ending.report,
      ...this.#monitor.report,
      ...this.#termination(),
      ...this.#options.agent.report,
      ...this.#options.guestFreeze.report,
      ...this.#options.media.report,
      ...this.#options.attachedVolumes.report,
    }
  }

  #termination(): Pick<DomainReport, 'isTerminated'> {
    return this.#isTerminated ? { isTerminated: true } : {}
  }

  #publish(report: DomainReport): DomainReport {
    if (this.#last !== undefined && isSame(this.#last, report)) return report
    this.#last = report
    for (const listener of this.#listeners) listener(report)
    if (report.exit !== undefined) this.#holdFinal(report.exit)
    return report
  }

  #holdFinal(exit: LauncherExit): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#options.clock.after(finalHoldMs, () => this.#ended.resolve(exit))
  }

  #mustHaveDomain(): DomainRef {
    if (this.#dom === undefined) throw new Refused('NotReady', 'the launcher has no VirtualMachine yet')
    return this.#dom
  }
}

/** libvirt's own errors are refusals that the user sees; all others are temporary. */
async function refusedAs<T>(reason: 'DefineRefused' | 'StartFailed', run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (error instanceof LibvirtError) throw new Refused(reason, error.message, { cause: error })
    throw error
  }
}

function isSame(one: DomainReport, other: DomainReport): boolean {
  const { observedAt: _, ...rest } = one
  const { observedAt: __, ...otherRest } = other
  return JSON.stringify(rest) === JSON.stringify(otherRest)
}

/** Leaves acronyms unchanged. */
function lowerFirst(word: string): string {
  if (/^[A-Z]{2}/.test(word)) return word
  return word.slice(0, 1).toLowerCase() + word.slice(1)
}

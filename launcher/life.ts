import type { Domain } from '../api/domain/domain.ts'
import { shorten } from '../api/shorten.ts'
import type { VirtualMachineSpec, VirtualMachine } from '../api/virtual-machine.ts'
import type { Clock } from '../runtime/clock.ts'
import {
  type DomainReport,
  type JsonObject,
  type LauncherExit,
  type SpecDrift,
  fillingDisk,
  launcherVersion,
  maxTextLength,
} from '../runtime/launcher-api.ts'
import type { OnProgress } from './claim-disk.ts'
import { type GuestAgent, isAgentOpen, withoutAgentState } from './guest-agent.ts'
import type { Client } from './libvirt/client.ts'
import {
  type DiskError,
  type DomainRef,
  type DomainState,
  defineDomain,
  destroyDomain,
  killDomain,
  pingQemu,
  readDiskErrors,
  readState,
  readXml,
  resumeDomain,
  shutdownDomain,
  startDomain,
} from './libvirt/domain.ts'
import { LibvirtError } from './libvirt/errors.ts'
import { pausedMessage } from './full-disk.ts'
import type { Identity } from './identity.ts'
import { lockedDiskMessage } from './locked-disk.ts'
import { type MemoryUse, outOfMemoryMessage } from './out-of-memory.ts'
import type { Logger } from '../runtime/log.ts'
import { type PhaseReport, phaseOf } from './phase.ts'
import { Refused } from './refused.ts'

/** How long the launcher waits for the handler to read the final report. */
export const finalHoldMs = 15_000

/** A guest ignores the power button while it boots, so it is pressed again at this interval until the deadline. */
const pressIntervalMs = 5000

/**
 * The state is also read at this interval: a restarted daemon that finds QEMU dead sends no event, and the last known
 * state was "running".
 */
const resyncMs = 10_000

/**
 * A monitor that has not responded for this long is reported. libvirtd itself responds from memory while QEMU hangs.
 */
const unresponsiveMs = 20_000

/** libvirtd describes a domain within milliseconds. After this time, the report contains the previous description. */
const describeMs = 1000

/** If libvirtd is lost before the guest runs, the start is retried at this interval. */
const retryStartMs = 1000

/** A destroy that failed is repeated at this interval: libvirtd may have been restarted in the meantime. */
const retryDestroyMs = 5000

/** With which libvirtd reports the end of a QEMU that a previous libvirtd has ended, or was ending, on request. */
const reasonsAfterRestart = ['unknown', 'crashed', 'daemon']

/** The kubelet's own default. */
const defaultGraceSeconds = 30

/** When the domain is destroyed, by the monotonic clock, because the wall clock can be set in the meantime. */
interface Deadline {
  readonly atMs: number
  /** RFC 3339, for people. */
  readonly time: string
  readonly gracePeriodSeconds: number
  cancel: () => void
}

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
  readonly readMemoryUse: () => Promise<MemoryUse>
  /** Whether these disks, by target, can be written again after they were full. */
  readonly hasRoom: (targets: readonly string[], domain: Domain) => Promise<boolean>
  readonly agent: GuestAgent
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
  readonly #listeners = new Set<(report: DomainReport) => void>()
  readonly #ended = Promise.withResolvers<LauncherExit>()
  #vm: VirtualMachine | undefined
  /** How far a disk is filled. */
  #progress: { readonly message: string; readonly reason: string } | undefined
  /** The error of a start that is retried. */
  #trouble: string | undefined
  #dom: DomainRef | undefined
  /** As it was defined: the volumes are files. */
  #domain: Domain | undefined
  /** Of a guest that is paused because of them. */
  #diskErrors: readonly DiskError[] = []
  #wasStarted = false
  #failure: { phase: 'Gone' | 'Shutoff'; reason: string; message: string } | undefined
  /** The kernel's count of processes killed for memory before QEMU was started. */
  #oomKillsBefore = 0
  /** Fields of a newer version that this launcher does not know. */
  #ignored: readonly SpecDrift[] = []
  #specDrift: SpecDrift[] | undefined
  /** RFC 3339, once QEMU's monitor has been silent for long. */
  #unresponsiveSince: string | undefined
  #isPinging = false
  #isPressing = false
  #isDestroying = false
  #isDestroyRequested = false
  /** libvirtd still waits for QEMU to describe the domain. */
  #isDescribing = false
  /** The kubelet has requested the end of the pod. */
  #isTerminated = false
  #deadline: Deadline | undefined
  #last: DomainReport | undefined
  #reading: Promise<DomainReport> | undefined
  #next: Promise<DomainReport> | undefined
  #isEnding = false

  constructor(options: LifeOptions) {
    this.#options = options
  }

  /** Resolves when the launcher can exit: when the final report was read (`final`), or 15 s after it. */
  get ended(): Promise<LauncherExit> {
    return this.#ended.promise
  }

  /** Whether it has been given its VM. */
  get hasVm(): boolean {
    return this.#vm !== undefined
  }

  /** Whether the kubelet has requested the end of a pod with a liveness probe, which may be the reason. */
  get isTerminatedWithProbe(): boolean {
    return this.#isTerminated && this.#vm?.spec.livenessProbe !== undefined
  }

  /** The defined domain. */
  get dom(): DomainRef | undefined {
    return this.#dom
  }

  /**
   * Accepts the VM and begins to start it, unless it was accepted before. Does not wait for libvirt: later reports
   * contain the progress of the start, and a refusal by libvirt or by a volume as `exit`. Returns the newest report.
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

  /** Reads the state again, because it may have changed. */
  hint(): void {
    this.report().catch((error: unknown) => this.#options.log.warn({ err: error }, 'could not read the state'))
  }

  /**
   * Presses the power button until the guest is off, and destroys the domain after the grace period. A later call can
   * only shorten the period. Does not wait for libvirt.
   * @throws Refused if there is no domain yet
   */
  shutdown(gracePeriodSeconds: number): void {
    const dom = this.#mustHaveDomain()
    const { clock } = this.#options
    const graceMs = gracePeriodSeconds * 1000
    if (this.#deadline === undefined || clock.monotonic() + graceMs < this.#deadline.atMs) {
      this.#deadline?.cancel()
      const time = new Date(clock.now() + graceMs).toISOString()
      this.#deadline = { atMs: clock.monotonic() + graceMs, time, gracePeriodSeconds, cancel: () => {} }
      this.#enforce(dom, this.#deadline)
    }
    void this.#press(dom).then(() => this.hint())
  }

  /**
   * Ends QEMU without waiting for it; a failure is logged, and the attempt repeated until the domain has ended.
   * @throws Refused if there is no domain yet
   */
  destroy(): void {
    void this.#destroy(this.#mustHaveDomain())
  }

  /** The kubelet ends the pod: shuts down with the grace period of the spec. */
  terminate(): void {
    if (this.#isEnding) return
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
        this.#failure = { phase, reason: lowerFirst(error.reason), message }
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
    await this.#start(this.#dom)
  }

  #resync(): void {
    this.#options.clock.after(resyncMs, () => {
      if (this.#isEnding) return
      this.hint()
      void this.#ping()
      void this.#continueWhenThereIsRoom()
      this.#resync()
    })
  }

  /** Pings do not overlap: libvirtd blocks the call while QEMU hangs, and can serve only a few such calls. */
  async #ping(): Promise<void> {
    const { client, clock, log } = this.#options
    if (this.#dom === undefined || this.#isPinging || this.#last?.phase !== 'Running') return
    this.#isPinging = true
    const since = new Date(clock.now()).toISOString()
    const cancel = clock.after(unresponsiveMs, () => {
      log.warn({ since }, 'QEMU does not respond on its monitor')
      this.#unresponsiveSince = since
      this.hint()
    })
    // An error is a response too: the domain may have just ended, or libvirtd was lost.
    await pingQemu(client, this.#dom).catch(() => {})
    cancel()
    this.#isPinging = false
    if (this.#unresponsiveSince === undefined) return
    this.#unresponsiveSince = undefined
    this.hint()
  }

  /** QEMU pauses a guest whose write finds no space, so that the guest sees no error, and repeats the write. */
  async #continueWhenThereIsRoom(): Promise<void> {
    const { client, hasRoom, log } = this.#options
    const full = this.#diskErrors.filter(({ isFull }) => isFull).map(({ target }) => target)
    if (full.length === 0 || full.length < this.#diskErrors.length) return
    if (this.#dom === undefined || this.#domain === undefined) return
    try {
      if (!(await hasRoom(full, this.#domain))) return
      log.info({ disks: full }, 'there is space again; resuming the guest')
      await resumeDomain(client, this.#dom)
    } catch (error) {
      log.warn({ err: error }, 'could not resume the guest')
    }
    this.hint()
  }

  /**
   * Starts only a domain that never ran. If libvirtd was lost during a previous start, the domain may have run and
   * ended since.
   */
  async #start(dom: DomainRef): Promise<void> {
    const { client } = this.#options
    const state = await readState(client, dom)
    if (state?.state !== 'shutoff' || state.reason !== 'unknown') {
      this.#wasStarted = true
      return
    }
    this.#oomKillsBefore = (await this.#options.readMemoryUse()).oomKills
    try {
      await refusedAs('StartFailed', () => startDomain(client, dom))
    } catch (error) {
      const message = await this.#outOfMemory()
      if (message !== undefined) throw new Refused('OOMKilled', message, { cause: error })
      const locked = error instanceof Refused ? lockedDiskMessage(error.message, this.#vm?.spec ?? {}) : undefined
      throw locked === undefined ? error : new Refused('StartFailed', locked, { cause: error })
    }
    this.#wasStarted = true
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
    this.#diskErrors = state?.state === 'paused' && state.reason === 'ioerror' ? await this.#readDiskErrors(dom) : []
    const live = await this.#readDomain(dom)
    const domain = live && withoutAgentState(live)
    return this.#publish({ ...base, ...(await this.#explain(this.#phaseOf(state))), ...this.#details(domain) })
  }

  /**
   * The live domain, or the previous one while QEMU hangs, because libvirtd waits for QEMU to describe it. Calls do not
   * overlap: each occupies libvirtd while QEMU hangs.
   */
  async #readDomain(dom: DomainRef): Promise<JsonObject | undefined> {
    const { client, clock, readXml: parse } = this.#options
    if (this.#isDescribing) return this.#last?.domain
    const reading = readXml(client, dom, { deadlineMs: Infinity }).then((xml) => ({ xml }))
    const { promise: timeout, resolve } = Promise.withResolvers<undefined>()
    const cancel = clock.after(describeMs, () => resolve(undefined))
    const read = await Promise.race([reading, timeout]).finally(cancel)
    if (read !== undefined) {
      const domain = read.xml === undefined ? undefined : parse(read.xml)
      this.#options.agent.observe(dom, isAgentOpen(domain))
      return domain
    }
    this.#isDescribing = true
    const describe = () => {
      this.#isDescribing = false
      this.hint()
    }
    reading.then(describe, describe)
    return this.#last?.domain
  }

  /** The previous errors if QEMU does not respond in time. While it hangs, no further call waits for it. */
  async #readDiskErrors(dom: DomainRef): Promise<readonly DiskError[]> {
    if (this.#isDescribing) return this.#diskErrors
    return readDiskErrors(this.#options.client, dom, describeMs).catch(() => this.#diskErrors)
  }

  /** To libvirt, a QEMU that the kernel killed for memory has crashed. */
  async #explain(end: PhaseReport): Promise<PhaseReport> {
    if (end.phase === 'Paused' && end.reason === 'ioerror' && this.#vm !== undefined) {
      return { ...end, message: pausedMessage(this.#diskErrors, this.#vm.spec) }
    }
    if (end.exit !== 'Failed') return end
    const isRequested = this.#isDestroyRequested && reasonsAfterRestart.includes(end.reason)
    if (end.reason === 'destroyed' || isRequested) return { ...end, reason: 'destroyed', message: this.#endedBy() }
    const message = await this.#outOfMemory()
    return message === undefined ? end : { ...end, reason: 'OOMKilled', message }
  }

  #endedBy(): string {
    if (this.#deadline === undefined) return 'QEMU was ended on request, without a grace period'
    const { gracePeriodSeconds } = this.#deadline
    const message = `the guest did not power off within its grace period of ${gracePeriodSeconds} s, and was ended`
    return this.#isTerminated ? `${message}; the launcher pod was deleted, evicted or drained from its node` : message
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
    const report = phaseOf(state, { wasStarted: this.#wasStarted, isShuttingDown: this.#deadline !== undefined })
    // A reported end is final, even if libvirt's reason changes afterwards.
    return this.#last?.exit === undefined ? report : { ...report, exit: this.#last.exit }
  }

  #details(domain: JsonObject | undefined): Partial<DomainReport> {
    return {
      ...(domain === undefined ? {} : { domain }),
      ...(this.#specDrift === undefined ? {} : { specDrift: this.#specDrift }),
      ...(this.#deadline === undefined ? {} : deadlineOf(this.#deadline)),
      ...(this.#unresponsiveSince === undefined ? {} : { unresponsiveSince: this.#unresponsiveSince }),
      ...this.#termination(),
      ...this.#options.agent.report,
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
    if (this.#isEnding) return
    this.#isEnding = true
    this.#options.clock.after(finalHoldMs, () => this.#ended.resolve(exit))
  }

  #enforce(dom: DomainRef, deadline: Deadline): void {
    const { clock, log } = this.#options
    const wait = (delayMs: number) => {
      deadline.cancel = clock.after(delayMs, next)
    }
    const next = () => {
      if (this.#isEnding) return
      const leftMs = deadline.atMs - clock.monotonic()
      if (leftMs > 0) {
        void this.#press(dom)
        wait(Math.min(pressIntervalMs, leftMs))
        return
      }
      log.info('the grace period is over; destroying the domain')
      void this.#destroy(dom)
      wait(pressIntervalMs)
    }
    wait(Math.min(pressIntervalMs, deadline.atMs - clock.monotonic()))
  }

  /**
   * Logs a failure: the domain may have just ended, may have no power button, or libvirtd may be gone. The next press
   * follows soon. Presses do not overlap: libvirtd blocks the call while QEMU hangs, and serves few calls at once, of
   * which `#destroy` needs one.
   */
  async #press(dom: DomainRef): Promise<void> {
    const { client, log } = this.#options
    if (this.#isPressing) return
    this.#isPressing = true
    await shutdownDomain(client, dom).catch((error: unknown) =>
      log.warn({ err: error }, 'could not press the power button'),
    )
    this.#isPressing = false
  }

  /** Attempts do not overlap: the next would only wait in libvirtd for the previous one. */
  async #destroy(dom: DomainRef): Promise<void> {
    const { client, clock, log } = this.#options
    if (this.#isDestroying || this.#isEnding) return
    this.#isDestroying = true
    this.#isDestroyRequested = true
    try {
      await destroyDomain(client, dom).catch((error: unknown) => {
        log.warn({ err: error }, 'the domain did not end after SIGTERM; killing it')
        return killDomain(client, dom)
      })
    } catch (error) {
      log.error({ err: error, retryMs: retryDestroyMs }, 'could not destroy the domain; retrying')
      clock.after(retryDestroyMs, () => void this.#destroy(dom))
    }
    this.#isDestroying = false
    this.hint()
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

const deadlineOf = ({ time, gracePeriodSeconds }: Deadline) => ({ deadline: time, gracePeriodSeconds })

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

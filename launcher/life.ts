import type { Domain } from '../api/domain/domain.ts'
import type { MachineSpec, VirtualMachine } from '../api/machine.ts'
import type { Clock } from '../runtime/clock.ts'
import {
  type DomainReport,
  type JsonObject,
  type LauncherExit,
  type SpecDrift,
  maxTextLength,
} from '../runtime/launcher-api.ts'
import type { Client } from './libvirt/client.ts'
import {
  type DomainRef,
  type DomainState,
  defineDomain,
  destroyDomain,
  killDomain,
  readState,
  readXml,
  shutdownDomain,
  startDomain,
} from './libvirt/domain.ts'
import { LibvirtError } from './libvirt/errors.ts'
import type { Identity } from './identity.ts'
import { type MemoryUse, outOfMemoryMessage } from './out-of-memory.ts'
import { type Standing, standingOf } from './phase.ts'
import { Refused } from './refused.ts'

/** How long the end of the VM is held for whoever wants to read it. */
export const finalHoldMs = 15_000

/** A guest that was still booting did not hear the power button: it is pressed again so often until the deadline. */
const pressIntervalMs = 5000

/**
 * State is read again so often without a hint. A daemon that finds QEMU dead while it takes the domain over, after a restart of its own,
 * tells nobody; and what was read just before was that the domain runs.
 */
const resyncMs = 10_000

/** After a loss of libvirtd before the guest ran, the start is attempted again so often. */
const retryStartMs = 1000

/** kubelet's own default, where a VM gives no terminationGracePeriodSeconds. */
const defaultGraceSeconds = 30

/** What the life of a VM needs besides libvirt. */
export interface LifeOptions {
  readonly client: Client
  readonly clock: Clock
  /** The one VM that this launcher is for, if it was told. */
  readonly vmUID?: string
  /** Prepares the volumes; the domain that libvirt is to be given. @throws Refused */
  readonly prepare: (spec: MachineSpec, identity: Identity) => Promise<Domain>
  readonly readMemoryUse: () => Promise<MemoryUse>
  readonly writeXml: (domain: Domain) => string
  /** Undefined if the XML holds what the description does not know. */
  readonly readXml: (xml: string) => JsonObject | undefined
  readonly compare: (domain: Domain, inactiveXml: string) => SpecDrift[]
  readonly log: (message: string, fields: { [field: string]: unknown }) => void
}

/**
 * One VM from its definition to its end, in one libvirtd, once: define, start, follow, shut down, report. Never a second start.
 *
 * libvirt's state is read again on every hint and is the only truth; what is kept here is what libvirt cannot know: which VM this is,
 * whether it was started, and what went wrong before it ran.
 */
export class Life {
  readonly #options: LifeOptions
  readonly #listeners = new Set<(report: DomainReport) => void>()
  readonly #ended = Promise.withResolvers<LauncherExit>()
  #vm: VirtualMachine | undefined
  /** What a start that is attempted again has failed with. */
  #trouble: string | undefined
  #dom: DomainRef | undefined
  #wasStarted = false
  #failure: { phase: 'Gone' | 'Shutoff'; reason: string; message: string } | undefined
  /** Processes that the kernel killed for memory before QEMU was started. */
  #oomKillsBefore = 0
  #specDrift: SpecDrift[] | undefined
  #deadlineMs: number | undefined
  #last: DomainReport | undefined
  #reading: Promise<DomainReport> | undefined
  #next: Promise<DomainReport> | undefined
  #isEnding = false

  constructor(options: LifeOptions) {
    this.#options = options
  }

  /** Resolves when the launcher may exit: the end was read (`final`), or nobody did within 15 s. */
  get ended(): Promise<LauncherExit> {
    return this.#ended.promise
  }

  /** The domain of a VM that was defined. */
  get dom(): DomainRef | undefined {
    return this.#dom
  }

  /**
   * Accepts the VM and begins to start it, unless it has been accepted before. Does not wait for libvirt: what becomes of the start is
   * in the reports from now on, a refusal by libvirt or by a volume as an `exit`. Returns the newest report.
   * @throws Refused (it is another VM)
   */
  accept(vm: VirtualMachine): DomainReport {
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
      void this.#begin(vm, { uid, name })
    }
    return this.#last?.vmUID === uid ? this.#last : this.#starting(uid)
  }

  /**
   * How it stands now. One reading at a time: who asks while one is under way gets the next, for the first may have begun before what he wants to see.
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

  /** Something may have changed. */
  hint(): void {
    this.report().catch((error: unknown) => this.#options.log('state could not be read', { err: error }))
  }

  /**
   * Presses the power button until the guest is off, and destroys the domain `graceSeconds` after the first call. Does not wait for libvirt.
   * @throws Refused (there is no domain yet)
   */
  shutdown(graceSeconds: number): void {
    const dom = this.#mustHaveDomain()
    if (this.#deadlineMs === undefined) {
      this.#deadlineMs = this.#options.clock.now() + graceSeconds * 1000
      this.#enforce(dom, this.#deadlineMs)
    }
    void this.#press(dom).then(() => this.hint())
  }

  /**
   * Ends QEMU now. Does not wait for it; a failure is logged.
   * @throws Refused (there is no domain yet)
   */
  destroy(): void {
    void this.#destroy(this.#mustHaveDomain())
  }

  /** kubelet wants the pod to go: the same as `shutdown`, with the VM's own grace period. */
  terminate(): void {
    if (this.#isEnding) return
    if (this.#dom === undefined) return this.#ended.resolve('Failed')
    this.shutdown(this.#vm?.spec.terminationGracePeriodSeconds ?? defaultGraceSeconds)
  }

  /** The end was read. Before the end it says nothing. */
  final(): void {
    if (this.#last?.exit !== undefined) this.#ended.resolve(this.#last.exit)
  }

  /** Calls `listener` with each change from now on; returns how to stop that. */
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
      const message = (error instanceof Error ? error.message : String(error)).slice(0, maxTextLength)
      if (error instanceof Refused) {
        const phase = this.#dom === undefined ? 'Gone' : 'Shutoff'
        this.#failure = { phase, reason: lowerFirst(error.reason), message }
      } else {
        // libvirt and the volumes refused nothing: the cause is temporary.
        log('the VM could not be started yet', { err: error })
        this.#trouble = message
        clock.after(retryStartMs, () => void this.#begin(vm, identity))
      }
    }
    this.hint()
  }

  async #define(vm: VirtualMachine, identity: Identity): Promise<void> {
    const { client, prepare, writeXml, compare, log } = this.#options
    const domain = await prepare(vm.spec, identity)
    this.#dom = await refusedAs('DefineRefused', () => defineDomain(client, writeXml(domain)))
    const inactive = await readXml(client, this.#dom, { inactive: true })
    if (inactive !== undefined) this.#specDrift = compare(domain, inactive)
    if (this.#specDrift !== undefined && this.#specDrift.length > 0) {
      log('libvirt changed the domain', { specDrift: this.#specDrift })
    }
    await this.#start(this.#dom)
  }

  #resync(): void {
    this.#options.clock.after(resyncMs, () => {
      if (this.#isEnding) return
      this.hint()
      this.#resync()
    })
  }

  /** Only a domain that never ran: after a loss of libvirtd the start that we asked for may have been done, and be over. */
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
      throw message === undefined ? error : new Refused('OOMKilled', message, { cause: error })
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
    const base = { vmUID: uid, observedAt: new Date(clock.now()).toISOString() }
    if (this.#failure !== undefined) return this.#tell({ ...base, ...this.#failure, exit: 'Failed' })
    if (this.#vm === undefined) return this.#tell({ ...base, phase: 'Waiting', reason: 'noVirtualMachine' })
    const dom = this.#dom
    if (dom === undefined || !this.#wasStarted) return this.#tell(this.#starting(uid))
    const state = await readState(client, dom)
    const xml = await readXml(client, dom)
    return this.#tell({ ...base, ...(await this.#explain(this.#standing(state))), ...this.#details(xml) })
  }

  /** QEMU that the kernel killed for memory looks to libvirt as if it had crashed. */
  async #explain(standing: Standing): Promise<Standing & { message?: string }> {
    if (standing.exit !== 'Failed' || standing.reason === 'destroyed') return standing
    const message = await this.#outOfMemory()
    return message === undefined ? standing : { ...standing, reason: 'OOMKilled', message }
  }

  /** Undefined if the kernel has killed nothing since QEMU was started. */
  async #outOfMemory(): Promise<string | undefined> {
    const use = await this.#options.readMemoryUse()
    return use.oomKills > this.#oomKillsBefore ? outOfMemoryMessage(use) : undefined
  }

  #starting(vmUID: string): DomainReport {
    const message = this.#trouble === undefined ? {} : { message: this.#trouble }
    const observedAt = new Date(this.#options.clock.now()).toISOString()
    return { vmUID, phase: 'Defined', reason: 'starting', ...message, observedAt }
  }

  #standing(state: DomainState | undefined): Standing {
    const standing = standingOf(state, {
      wasStarted: this.#wasStarted,
      isShuttingDown: this.#deadlineMs !== undefined,
    })
    // The end of a life that was told is the end, even if libvirt's reason changes afterwards.
    return this.#last?.exit === undefined ? standing : { ...standing, exit: this.#last.exit }
  }

  #details(xml: string | undefined): Partial<DomainReport> {
    const domain = xml === undefined ? undefined : this.#options.readXml(xml)
    return {
      ...(domain === undefined ? {} : { domain }),
      ...(this.#specDrift === undefined ? {} : { specDrift: this.#specDrift }),
      ...(this.#deadlineMs === undefined ? {} : { deadline: new Date(this.#deadlineMs).toISOString() }),
    }
  }

  #tell(report: DomainReport): DomainReport {
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

  #enforce(dom: DomainRef, deadlineMs: number): void {
    const { clock, log } = this.#options
    const again = () => {
      if (this.#isEnding) return
      const leftMs = deadlineMs - clock.now()
      if (leftMs > 0) {
        void this.#press(dom)
        clock.after(Math.min(pressIntervalMs, leftMs), again)
        return
      }
      log('grace period is over, destroying the domain', {})
      void this.#destroy(dom)
      clock.after(pressIntervalMs, again)
    }
    clock.after(Math.min(pressIntervalMs, deadlineMs - clock.now()), again)
  }

  /** It fails for a domain that has just ended, for one without a power button, and without libvirtd; the next press is due soon. */
  async #press(dom: DomainRef): Promise<void> {
    const { client, log } = this.#options
    await shutdownDomain(client, dom).catch((error: unknown) => log('the power button was not pressed', { err: error }))
  }

  async #destroy(dom: DomainRef): Promise<void> {
    const { client, log } = this.#options
    try {
      await destroyDomain(client, dom).catch((error: unknown) => {
        // SIGTERM did not help.
        log('domain did not end, killing it', { err: error })
        return killDomain(client, dom)
      })
    } catch (error) {
      log('the domain was not destroyed', { err: error })
    }
    this.hint()
  }

  #mustHaveDomain(): DomainRef {
    if (this.#dom === undefined) throw new Refused('NotReady', 'no VirtualMachine is here yet')
    return this.#dom
  }
}

/** libvirt's refusal is the user's to read; every other error is the world's. */
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

/** An acronym stays as it is. */
function lowerFirst(word: string): string {
  if (/^[A-Z]{2}/.test(word)) return word
  return word.slice(0, 1).toLowerCase() + word.slice(1)
}

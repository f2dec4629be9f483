import { shorten } from '../api/shorten.ts'
import type { FreezeState, FreezeStatus } from '../api/virtual-machine.ts'
import { createBackOff } from '../runtime/back-off.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import type { DomainRef } from './libvirt/domain.ts'

/** A guest that waits longer for its disks reports errors, and so do its users. */
export const longestFreezeMs = 30_000

/** When a guest is asked again to thaw. */
const retries = { firstMs: 1000, longestMs: 15_000, healthyMs: 60_000 }

const maxMessage = 500

interface GuestFreezeOptions {
  /** Return the number of file systems. */
  readonly freeze: (dom: DomainRef) => Promise<number>
  readonly thaw: (dom: DomainRef) => Promise<number>
  readonly clock: Clock
  readonly log: Logger
  /** The report has changed. */
  readonly onChange: () => void
}

/** One request to freeze the guest. */
interface Frozen {
  readonly dom: DomainRef
  readonly id: string
  state: FreezeState
  message?: string
  /** How many are frozen. */
  filesystems: number
  /** Whether it was asked to thaw in time; undefined while it can stay frozen. */
  end?: 'requested' | 'expired'
  cancelExpiry: () => void
}

/**
 * Freezes the file systems of a guest while a snapshot of its disks is taken, and thaws them in any case: on request,
 * after 30 s, or when freezing fails, since a late freeze can succeed in the guest. Each id is served once.
 *
 *     Freezing → Frozen → Thawing → Thawed    the guest was frozen from the first request to the second
 *              ↘ Failed           ↘ Expired   it was not: 30 s passed, or the guest thawed by itself
 */
export class GuestFreeze {
  readonly #options: GuestFreezeOptions
  readonly #backOff: ReturnType<typeof createBackOff>
  #frozen: Frozen | undefined

  constructor(options: GuestFreezeOptions) {
    this.#options = options
    this.#backOff = createBackOff({ ...retries, clock: options.clock, random: () => 0 })
  }

  /** For the report. */
  get report(): { readonly frozen?: FreezeStatus } {
    if (this.#frozen === undefined) return {}
    const { id, state, message } = this.#frozen
    return { frozen: { id, state, ...(message === undefined ? {} : { message }) } }
  }

  /** Whether the guest may be frozen. */
  get isActive(): boolean {
    return this.#frozen !== undefined && ['Freezing', 'Frozen', 'Thawing'].includes(this.#frozen.state)
  }

  /** Another request ends the one before it first. */
  freeze(dom: DomainRef, id: string): void {
    if (this.#frozen?.id === id) return
    if (this.isActive) return this.end()
    const frozen: Frozen = { dom, id, state: 'Freezing', filesystems: 0, cancelExpiry: () => {} }
    this.#frozen = frozen
    this.#options.onChange()
    void this.#freeze(frozen)
  }

  thaw(id: string): void {
    if (this.#frozen?.id === id) this.#end(this.#frozen, 'requested')
  }

  /** Thaws the guest, whatever froze it. */
  end(): void {
    if (this.#frozen !== undefined) this.#end(this.#frozen, 'expired')
  }

  async #freeze(frozen: Frozen): Promise<void> {
    const { clock, log } = this.#options
    frozen.cancelExpiry = clock.after(longestFreezeMs, () => this.#end(frozen, 'expired'))
    try {
      const filesystems = await this.#options.freeze(frozen.dom)
      frozen.filesystems = filesystems
      log.info({ id: frozen.id, filesystems }, 'froze the guest')
      this.#become(frozen, 'Frozen')
      if (frozen.end !== undefined) void this.#thaw(frozen)
    } catch (error) {
      frozen.cancelExpiry()
      const message = error instanceof Error ? error.message : String(error)
      log.warn({ id: frozen.id, err: error }, 'could not freeze the guest')
      await this.#undo(frozen)
      this.#become(frozen, 'Failed', message)
    }
  }

  /**
   * What was frozen before the failure must not stay so. An agent that was only late freezes the guest yet, and answers
   * nothing before that, so this is repeated until it succeeds.
   */
  async #undo(frozen: Frozen): Promise<void> {
    const { thaw, log } = this.#options
    try {
      await thaw(frozen.dom)
    } catch (error) {
      log.warn({ id: frozen.id, err: error }, 'could not thaw a guest that may be frozen; retrying')
      this.#retry(frozen, () => this.#undo(frozen))
    }
  }

  /** Unless the guest is frozen by another request then, which would lose what it has frozen. */
  #retry(frozen: Frozen, run: () => Promise<void>): void {
    this.#options.clock.after(this.#backOff.next(), () => {
      if (this.#frozen === frozen) void run()
    })
  }

  #end(frozen: Frozen, end: 'requested' | 'expired'): void {
    if (frozen.end !== undefined) return
    if (frozen.state !== 'Freezing' && frozen.state !== 'Frozen') return
    frozen.end = end
    frozen.cancelExpiry()
    if (frozen.state === 'Frozen') void this.#thaw(frozen)
  }

  async #thaw(frozen: Frozen): Promise<void> {
    const { thaw, log } = this.#options
    if (frozen.state !== 'Thawing') this.#become(frozen, 'Thawing')
    try {
      const filesystems = await thaw(frozen.dom)
      delete frozen.message
      log.info({ id: frozen.id, filesystems }, 'thawed the guest')
      // The guest can have thawed some of them by itself.
      const isWhole = filesystems > 0 && filesystems >= frozen.filesystems
      if (frozen.end === 'requested' && isWhole) this.#become(frozen, 'Thawed')
      else this.#become(frozen, 'Expired', expiry(frozen.end))
    } catch (error) {
      log.warn({ id: frozen.id, err: error }, 'could not thaw the guest; retrying')
      const why = error instanceof Error ? error.message : String(error)
      this.#become(frozen, 'Thawing', `the guest cannot be thawed yet, which is tried again: ${why}`)
      this.#retry(frozen, () => this.#thaw(frozen))
    }
  }

  #become(frozen: Frozen, state: FreezeState, message?: string): void {
    frozen.state = state
    if (message !== undefined) frozen.message = shorten(message, maxMessage)
    this.#options.onChange()
  }
}

const expiry = (end: Frozen['end']): string =>
  end === 'requested'
    ? 'the guest thawed its file systems before the snapshot was complete'
    : `the file systems were thawed after ${longestFreezeMs / 1000} s, or because the guest was shut down`

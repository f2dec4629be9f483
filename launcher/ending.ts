import type { Clock } from '../runtime/clock.ts'
import type { DomainReport } from '../runtime/launcher-api.ts'
import type { Logger } from '../runtime/log.ts'
import type { Client } from './libvirt/client.ts'
import { type DomainRef, destroyDomain, killDomain, shutdownDomain } from './libvirt/domain.ts'
import type { PhaseReport } from './phase.ts'

/** A guest ignores the power button while it boots, so it is pressed again at this interval until the deadline. */
const pressIntervalMs = 5000

/** A destroy that failed is repeated at this interval: libvirtd may have been restarted in the meantime. */
const retryDestroyMs = 5000

/** With which libvirtd reports the end of a QEMU that a previous libvirtd has ended, or was ending, on request. */
const reasonsAfterRestart = ['unknown', 'crashed', 'daemon']

/** When the domain is destroyed, by the monotonic clock, because the wall clock can be set in the meantime. */
interface Deadline {
  readonly atMs: number
  /** RFC 3339, for people. */
  readonly time: string
  readonly gracePeriodSeconds: number
  cancel: () => void
}

interface EndingOptions {
  readonly client: Client
  readonly clock: Clock
  readonly log: Logger
  /** Whether the end of the domain has been reported: nothing is left to do. */
  readonly isOver: () => boolean
  /** Called after each attempt, because the state may have changed. */
  readonly onChange: () => void
}

/** Ends a guest on request: with the power button until its grace period is over, then by destroying the domain. */
export class Ending {
  readonly #options: EndingOptions
  #deadline: Deadline | undefined
  #isPressing = false
  #isDestroying = false
  #isDestroyRequested = false

  constructor(options: EndingOptions) {
    this.#options = options
  }

  get isShuttingDown(): boolean {
    return this.#deadline !== undefined
  }

  get report(): Pick<DomainReport, 'deadline' | 'gracePeriodSeconds'> {
    if (this.#deadline === undefined) return {}
    const { time, gracePeriodSeconds } = this.#deadline
    return { deadline: time, gracePeriodSeconds }
  }

  /** Whether QEMU has been ended on request, or is about to be. */
  get isDestroyRequested(): boolean {
    return this.#isDestroyRequested
  }

  /** Whether a failed domain was ended on request, perhaps of a previous libvirtd. */
  hasEnded({ reason }: PhaseReport): boolean {
    return reason === 'destroyed' || (this.#isDestroyRequested && reasonsAfterRestart.includes(reason))
  }

  /** Why the domain was ended. */
  message(isTerminated: boolean): string {
    if (this.#deadline === undefined) return 'QEMU was ended on request, without a grace period'
    const { gracePeriodSeconds } = this.#deadline
    const message = `the guest did not power off within its grace period of ${gracePeriodSeconds} s, and was ended`
    return isTerminated ? `${message}; the launcher pod was deleted, evicted or drained from its node` : message
  }

  /**
   * Presses the power button until the guest is off, and destroys the domain after the grace period. A later call can
   * only shorten the period. Does not wait for libvirt.
   */
  shutdown(dom: DomainRef, gracePeriodSeconds: number): void {
    const { clock, onChange } = this.#options
    const graceMs = gracePeriodSeconds * 1000
    if (this.#deadline === undefined || clock.monotonic() + graceMs < this.#deadline.atMs) {
      this.#deadline?.cancel()
      const time = new Date(clock.now() + graceMs).toISOString()
      this.#deadline = { atMs: clock.monotonic() + graceMs, time, gracePeriodSeconds, cancel: () => {} }
      this.#enforce(dom, this.#deadline)
    }
    void this.#press(dom).then(onChange)
  }

  /**
   * Ends QEMU. A failure is logged, and the attempt repeated until the domain has ended. Attempts do not overlap: the
   * next would only wait in libvirtd for the previous one.
   */
  async destroy(dom: DomainRef): Promise<void> {
    const { client, clock, log, isOver, onChange } = this.#options
    if (this.#isDestroying || isOver()) return
    this.#isDestroying = true
    this.#isDestroyRequested = true
    try {
      await destroyDomain(client, dom).catch((error: unknown) => {
        log.warn({ err: error }, 'the domain did not end after SIGTERM; killing it')
        return killDomain(client, dom)
      })
    } catch (error) {
      log.error({ err: error, retryMs: retryDestroyMs }, 'could not destroy the domain; retrying')
      clock.after(retryDestroyMs, () => void this.destroy(dom))
    }
    this.#isDestroying = false
    onChange()
  }

  #enforce(dom: DomainRef, deadline: Deadline): void {
    const { clock, log, isOver } = this.#options
    const wait = (delayMs: number) => {
      deadline.cancel = clock.after(delayMs, next)
    }
    const next = () => {
      if (isOver()) return
      const leftMs = deadline.atMs - clock.monotonic()
      if (leftMs > 0) {
        void this.#press(dom)
        wait(Math.min(pressIntervalMs, leftMs))
        return
      }
      log.info('the grace period is over; destroying the domain')
      void this.destroy(dom)
      wait(pressIntervalMs)
    }
    wait(Math.min(pressIntervalMs, deadline.atMs - clock.monotonic()))
  }

  /**
   * Logs a failure: the domain may have just ended, may have no power button, or libvirtd may be gone. The next press
   * follows soon. Presses do not overlap: libvirtd blocks the call while QEMU hangs, and serves few calls at once, of
   * which `destroy` needs one.
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
}

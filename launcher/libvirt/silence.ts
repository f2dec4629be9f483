import type { Clock } from '../../runtime/clock.ts'

/**
 * A libvirtd that has replied to no read for this long hangs. libvirt reads a domain's state from its own memory within
 * milliseconds. While it ends a QEMU, a read waits for at most 45 s: 15 s until SIGKILL has ended QEMU, and 30 s for
 * another change of the domain.
 */
export const hungMs = 60_000

/**
 * Measures, by the monotonic clock, for how long requests have had no reply. Without a request, there is no silence.
 */
export class Silence {
  readonly #clock: Clock
  readonly #onHung: () => void
  /** When the first request without a later reply began. */
  #sinceMs: number | undefined

  /** @param onHung called when the silence reaches 60 s, and again after each further 60 s */
  constructor(clock: Clock, onHung: () => void) {
    this.#clock = clock
    this.#onHung = onHung
  }

  /** A request begins. */
  begin(): void {
    this.#sinceMs ??= this.#clock.monotonic()
  }

  /** A reply arrived, or no process accepts connections. */
  end(): void {
    this.#sinceMs = undefined
  }

  /** A request was given up without a reply. */
  check(): void {
    if (this.#sinceMs === undefined || this.#clock.monotonic() - this.#sinceMs < hungMs) return
    this.#sinceMs = undefined
    this.#onHung()
  }
}

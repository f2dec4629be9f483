import type { Clock } from '../runtime/clock.ts'

/**
 * Presets whose writing was approved here a moment ago and of which the watch has not told yet. Reviews of VMs wait for them, so that
 * whoever writes a preset and then a VM finds the one in the other.
 *
 * Promised: what was approved by this process counts for each review that begins after its author had the answer. Not promised: the
 * same for what another replica approved, and for deletions: there the watch decides, a few milliseconds.
 */
export interface Arrivals {
  expect(id: string): void
  /** The watch told something of this preset. */
  arrived(id: string): void
  /** Resolves when nothing is expected any more; undefined where that is so already. */
  wait(): Promise<void> | undefined
}

/** The writing may have failed after all: nobody waits longer than this. Stored and told usually takes 2 to 10 ms. */
const patienceMs = 300

export function createArrivals(clock: Clock): Arrivals {
  const expected = new Map<string, { readonly done: Promise<void>; readonly finish: () => void }>()
  const finish = (id: string) => expected.get(id)?.finish()
  return {
    expect(id) {
      finish(id)
      const { promise, resolve } = Promise.withResolvers<void>()
      const cancel = clock.after(patienceMs, () => finish(id))
      expected.set(id, {
        done: promise,
        finish() {
          cancel()
          expected.delete(id)
          resolve()
        },
      })
    },
    arrived: finish,
    wait() {
      if (expected.size === 0) return undefined
      return Promise.all([...expected.values()].map(({ done }) => done)).then(() => {})
    },
  }
}

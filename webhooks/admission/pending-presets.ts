import type { Clock } from '../../runtime/clock.ts'

/**
 * Presets that were admitted here and that the watch has not reported yet. Requests for VMs wait for them, so that a
 * user who creates a preset and then a VM finds the preset applied.
 *
 * Guaranteed: a preset admitted by this process applies to every VM whose request starts after the response to the
 * preset's author. Not guaranteed: the same for presets admitted by another replica, and for deletions; there the watch
 * decides, within milliseconds.
 */
export interface PendingPresets {
  /** @param size what the preset counts in its namespace */
  expect(id: string, size: number): void
  /**
   * The watch reported this preset.
   * @param size what it counts as it is stored, 0 if it was deleted; called only if the preset is expected
   */
  arrived(id: string, size: () => number): void
  /** Resolves once no preset that can select a VM of the namespace is pending; undefined if there is none. */
  wait(namespace: string): Promise<void> | undefined
  /** What the presets of the namespace count that can still be stored, by ID. */
  sizes(namespace: string): ReadonlyMap<string, number>
}

/** A limit, because the write may have failed. The watch usually reports a stored preset within 2 to 10 ms. */
const maxWaitMs = 300
/**
 * The API server gives up a request after a minute. A tenant can make the time between admission and storage last for
 * seconds, for example with thousands of quotas, and send hundreds of presets meanwhile.
 */
const longestWriteMs = 60_000

export function createPendingPresets(clock: Clock): PendingPresets {
  const expected = new Map<string, { readonly done: Promise<void>; readonly finish: () => void }>()
  const finish = (id: string) => expected.get(id)?.finish()
  /** The oldest first. */
  const writes = new Set<{ readonly id: string; readonly size: number; readonly untilMs: number }>()
  const dropOld = () => {
    for (const write of writes) {
      if (write.untilMs > clock.monotonic()) return
      writes.delete(write)
    }
  }
  return {
    expect(id, size) {
      finish(id)
      dropOld()
      writes.add({ id, size, untilMs: clock.monotonic() + longestWriteMs })
      const { promise, resolve } = Promise.withResolvers<void>()
      const cancel = clock.after(maxWaitMs, () => finish(id))
      expected.set(id, {
        done: promise,
        finish() {
          cancel()
          expected.delete(id)
          resolve()
        },
      })
    },
    arrived(id, size) {
      finish(id)
      // Only this write: another one can still be stored, larger than this, or after the deletion of this.
      const own = [...writes].filter((write) => write.id === id)
      const stored = own.length === 0 ? 0 : size()
      const [largest] = own.filter((write) => write.size <= stored).toSorted((one, other) => other.size - one.size)
      if (largest !== undefined) writes.delete(largest)
    },
    wait(namespace) {
      const pending = [...expected].filter(([id]) => !id.includes('/') || id.startsWith(`${namespace}/`))
      if (pending.length === 0) return undefined
      return Promise.all(pending.map(([, { done }]) => done)).then(() => {})
    },
    sizes(namespace) {
      dropOld()
      const sizes = new Map<string, number>()
      for (const { id, size } of writes)
        if (id.startsWith(`${namespace}/`)) sizes.set(id, Math.max(size, sizes.get(id) ?? 0))
      return sizes
    },
  }
}

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
  expect(id: string): void
  /** The watch reported this preset. */
  arrived(id: string): void
  /** Resolves once no preset that can select a VM of the namespace is pending; undefined if there is none. */
  wait(namespace: string): Promise<void> | undefined
}

/** A limit, because the write may have failed. The watch usually reports a stored preset within 2 to 10 ms. */
const maxWaitMs = 300

export function createPendingPresets(clock: Clock): PendingPresets {
  const expected = new Map<string, { readonly done: Promise<void>; readonly finish: () => void }>()
  const finish = (id: string) => expected.get(id)?.finish()
  return {
    expect(id) {
      finish(id)
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
    arrived: finish,
    wait(namespace) {
      const pending = [...expected].filter(([id]) => !id.includes('/') || id.startsWith(`${namespace}/`))
      if (pending.length === 0) return undefined
      return Promise.all(pending.map(([, { done }]) => done)).then(() => {})
    },
  }
}

import type { Clock } from '../runtime/clock.ts'

/** What a caller waits for where it does not say: the configurations' `timeoutSeconds`. */
const usualTimeoutMs = 5000

/** Kept of the caller's time for the way back: an answer that arrives too late is as good as none, and says less. */
const wayBack = { share: 0.1, leastMs: 20 }

const units: ReadonlyMap<string, number> = new Map([
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
  ['us', 0.001],
  ['µs', 0.001],
  ['ns', 0.000_001],
])

/** A duration as Go writes it, e.g. `5s`, `1m30s`, `2.5s`, in milliseconds; undefined where it is none. */
export function parseDuration(text: string): number | undefined {
  if (!/^(?:\d+(?:\.\d+)?(?:h|ms|m|us|µs|ns|s))+$/.test(text)) return undefined
  let totalMs = 0
  for (const [, number, unit = ''] of text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|us|µs|ns|s)/g)) {
    totalMs += Number(number) * (units.get(unit) ?? 0)
  }
  return totalMs
}

/** How long there is for a review whose caller waits as long as the URL's `?timeout=` says. */
export function budgetMs(url: string): number {
  const given = new URLSearchParams(url.split('?', 2)[1] ?? '').get('timeout')
  const timeoutMs = Math.min((given === null ? undefined : parseDuration(given)) ?? usualTimeoutMs, 30_000)
  return Math.max(0, timeoutMs - Math.max(timeoutMs * wayBack.share, wayBack.leastMs))
}

/** What is asked for, or undefined once `leftMs` have gone by without it. What it throws is thrown. */
export async function inTime<T>(asked: Promise<T>, leftMs: number, clock: Clock): Promise<T | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>()
  const cancel = clock.after(leftMs, () => resolve(undefined))
  try {
    return await Promise.race([asked, late])
  } finally {
    cancel()
  }
}

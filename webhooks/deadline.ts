import type { Clock } from '../runtime/clock.ts'

/** The timeout of a caller that sends none: `timeoutSeconds` of the webhook configurations. */
const defaultTimeoutMs = 5000

/**
 * The part of the caller's timeout that is reserved for the network. A response that arrives too late is lost, with its
 * message.
 */
const reserve = { share: 0.1, leastMs: 20 }

const units: ReadonlyMap<string, number> = new Map([
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
  ['us', 0.001],
  ['µs', 0.001],
  ['ns', 0.000_001],
])

/** A duration as Go writes it, e.g. `5s`, `1m30s`, `2.5s`, in milliseconds; undefined if it is malformed. */
export function parseDuration(text: string): number | undefined {
  if (!/^(?:\d+(?:\.\d+)?(?:h|ms|m|us|µs|ns|s))+$/.test(text)) return undefined
  let totalMs = 0
  for (const [, number, unit = ''] of text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|us|µs|ns|s)/g)) {
    totalMs += Number(number) * (units.get(unit) ?? 0)
  }
  return totalMs
}

/** The time for handling an admission request, derived from the caller's timeout in the URL's `?timeout=`. */
export function budgetMs(url: string): number {
  const given = new URLSearchParams(url.split('?', 2)[1] ?? '').get('timeout')
  const timeoutMs = Math.min((given === null ? undefined : parseDuration(given)) ?? defaultTimeoutMs, 30_000)
  return Math.max(0, timeoutMs - Math.max(timeoutMs * reserve.share, reserve.leastMs))
}

/** Resolves like `result`, or to undefined after `leftMs`. */
export async function inTime<T>(result: Promise<T>, leftMs: number, clock: Clock): Promise<T | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>()
  const cancel = clock.after(leftMs, () => resolve(undefined))
  try {
    return await Promise.race([result, late])
  } finally {
    cancel()
  }
}

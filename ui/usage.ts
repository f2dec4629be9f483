import type { GuestMetrics } from '../api/guest-metrics.ts'

/** What a guest uses at one time; rates are undefined in the first sample. */
export interface Sample {
  /** By the clock of the node. */
  readonly atMs: number
  /** Of one CPU: 2 for two that are busy. */
  readonly cpus: number | undefined
  readonly memoryBytes: number
  readonly readPerSecond: number | undefined
  readonly writtenPerSecond: number | undefined
  readonly receivedPerSecond: number | undefined
  readonly sentPerSecond: number | undefined
}

/** The number of samples that are retained. */
export const mostSamples = 60

/** Adds a sample. Counters that went back are those of another launcher, and have no rate. */
export function withSample(
  samples: readonly Sample[],
  metrics: GuestMetrics,
  before: GuestMetrics | undefined,
): readonly Sample[] {
  const atMs = Date.parse(metrics.time)
  const seconds = before === undefined ? 0 : (atMs - Date.parse(before.time)) / 1000
  const rate = (counterOf: (of: GuestMetrics) => number): number | undefined => {
    if (before === undefined || seconds <= 0) return undefined
    const difference = counterOf(metrics) - counterOf(before)
    return difference < 0 ? undefined : difference / seconds
  }
  const { memory } = metrics
  const sample: Sample = {
    atMs,
    cpus: rate(({ cpu }) => cpu.usageSeconds),
    memoryBytes: memory.usedBytes ?? memory.residentBytes,
    readPerSecond: rate(({ disks }) => sum(disks.map(({ readBytes }) => readBytes))),
    writtenPerSecond: rate(({ disks }) => sum(disks.map(({ writtenBytes }) => writtenBytes))),
    receivedPerSecond: rate(({ network }) => sum(network.map(({ receivedBytes }) => receivedBytes))),
    sentPerSecond: rate(({ network }) => sum(network.map(({ sentBytes }) => sentBytes))),
  }
  // Several readers within a second get the same metrics.
  return samples.at(-1)?.atMs === atMs ? samples : [...samples, sample].slice(-mostSamples)
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** For example `1.5 MiB`. */
export function bytesText(bytes: number): string {
  let [value, unit] = [bytes, 0]
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`
}

/** For example `37 %`. */
export const shareText = (share: number): string => `${Math.round(share * 100)} %`

/**
 * The points of a line in a box of `width` × `height`, the last one at the right end. Zero is at the bottom, `top` at
 * the top. Gaps divide the line.
 */
export function linesOf(
  values: readonly (number | undefined)[],
  { top, width, height }: { readonly top: number; readonly width: number; readonly height: number },
): readonly string[] {
  const step = width / (mostSamples - 1)
  const lines: string[][] = [[]]
  for (const [index, value] of values.entries()) {
    if (value === undefined) {
      lines.push([])
      continue
    }
    const x = width - (values.length - 1 - index) * step
    const y = height - (Math.min(value, top) / top) * height
    lines.at(-1)?.push(`${x.toFixed(1)},${y.toFixed(1)}`)
  }
  return lines.filter((line) => line.length > 0).map((line) => line.join(' '))
}

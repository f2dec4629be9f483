import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { outOfMemoryAdvice } from '../api/launcher-memory.ts'

/** The memory of the container, as the kernel accounts for it in the container's cgroup. */
export interface MemoryUse {
  /** Processes of the container that the kernel has killed because memory ran out. */
  readonly oomKills: number
  /** Absent if the container has no limit. */
  readonly limitBytes?: number
  readonly peakBytes?: number
}

interface Files {
  readonly events: string
  readonly limit: string
  readonly peak: string
}

/** Below `/sys/fs/cgroup` of a container: version 2, then version 1. */
const layouts: readonly Files[] = [
  { events: 'memory.events', limit: 'memory.max', peak: 'memory.peak' },
  {
    events: 'memory/memory.oom_control',
    limit: 'memory/memory.limit_in_bytes',
    peak: 'memory/memory.max_usage_in_bytes',
  },
]

/**
 * Version 1 represents "no limit" as the largest multiple of a page below 2^63; no node has even a tenth of this much.
 */
const unlimitedBytes = 2 ** 60

/** Zero kills if the cgroup cannot be read. @param directory the container's `/sys/fs/cgroup` */
export async function readMemoryUse(directory: string): Promise<MemoryUse> {
  for (const { events, limit, peak } of layouts) {
    const read = (name: string) => readFile(join(directory, name), 'utf8').catch(() => undefined)
    const counters = await read(events)
    if (counters === undefined) continue
    const limitBytes = bytesOf(await read(limit))
    const peakBytes = bytesOf(await read(peak))
    return {
      oomKills: Number(/^oom_kill (\d+)$/m.exec(counters)?.[1] ?? 0),
      ...(limitBytes === undefined || limitBytes > unlimitedBytes ? {} : { limitBytes }),
      ...(peakBytes === undefined ? {} : { peakBytes }),
    }
  }
  return { oomKills: 0 }
}

function bytesOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+\s*$/.test(text) ? Number(text) : undefined
}

/**
 * The kernel tries to free memory before it kills a process, so the usage at that point exceeds this share of the
 * limit.
 */
const exhaustedShare = 0.9

/** Why QEMU was killed, in a sentence for the VM's status. */
export function outOfMemoryMessage({ limitBytes, peakBytes = 0 }: MemoryUse): string {
  const killed = 'the kernel killed QEMU because memory ran out'
  if (limitBytes === undefined) return `${killed} on the node`
  if (peakBytes < limitBytes * exhaustedShare)
    return `${killed} on the node; the launcher pod used at most ${mebibytes(peakBytes)} of its limit of ${mebibytes(limitBytes)}`
  return `${killed}: the launcher pod reached its limit of ${mebibytes(limitBytes)}; ${outOfMemoryAdvice}`
}

function mebibytes(bytes: number): string {
  return `${Math.ceil(bytes / 2 ** 20)} MiB`
}

/** Resident memory of the launcher, including pages of Node's executable: 105 MiB measured. */
const launcherResidentBytes = 128 * 2 ** 20
const highestScore = 1000

/**
 * The `oom_score_adj` with which the kernel kills QEMU before the launcher when the container reaches its limit. Each
 * point adds a thousandth of the limit, so the points outweigh the launcher's resident memory. More would make a large
 * VM that stays within its request the first victim when the whole node is short of memory.
 */
export function raisedScore(own: number, limitBytes: number | undefined): number {
  const points = limitBytes === undefined ? 1 : Math.ceil((launcherResidentBytes * highestScore) / limitBytes)
  return Math.min(own + points, highestScore)
}

/**
 * Raises the score of a process, which its later children inherit. Raising needs no privilege.
 * @throws if /proc refuses it, or the process has ended
 */
export async function raiseOomScore(pid: number, { limitBytes }: MemoryUse): Promise<void> {
  const own = Number(await readFile('/proc/self/oom_score_adj', 'utf8'))
  await writeFile(`/proc/${pid}/oom_score_adj`, String(raisedScore(own, limitBytes)))
}

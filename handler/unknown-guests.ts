import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Gauge, type Registry } from 'prom-client'
import { createBucket } from '../runtime/bucket.ts'
import { sleep, type Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { LauncherAbsent, type Launcher, type LauncherLimits } from './launcher.ts'
import { isAlive } from './status.ts'

/** A guest that no VM of this node accounts for. */
interface UnknownGuest {
  readonly podUID: string
  /** According to the pod, which can be any pod: a UID, but maybe that of another VM. */
  readonly vmUID: string
}

export interface UnknownGuests {
  /** Those that two scans in a row found. */
  list(): readonly UnknownGuest[]
  stop(): Promise<void>
}

const scanIntervalMs = 60_000
/** Each guest is logged again after so many scans. */
const scansPerLog = 10
const deadlineMs = 1000
/** Pods that are asked at once. A node has 110 pods, and each of them can keep its deadline waiting. */
const concurrency = 8
const uidForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
/**
 * For all pods that are asked: one of a tenant can send 1 MiB, which takes 0.1 s of CPU time to parse, each minute. What
 * exceeds this delays the scan. A report of a domain of 100 devices is 60 KiB.
 */
const responseBytes = { perSecond: 256 * 1024, burst: 4 * 1024 * 1024 }

/**
 * Looks every minute for launchers on this node that run a guest, and whose pod is not that of a VM. That happens when
 * the API server has lost a VM: etcd was restored from a backup. Such a guest is reported, and never ended: an API
 * server that lost its objects must not end guests. Any pod can pretend to be a launcher: the report is only a hint.
 * The kubelet ends the pod once it is sure that the API server does not have it.
 */
export function findUnknownGuests(options: {
  readonly kubeletRoot: string
  /** The pods of the VMs of this node; undefined while they are not known. */
  readonly podsOfVms: () => ReadonlySet<string> | undefined
  readonly launcherOf: (podUID: string, limits: LauncherLimits) => Launcher
  readonly log: Logger
  readonly clock: Clock
}): UnknownGuests {
  const { kubeletRoot, podsOfVms, launcherOf, log, clock } = options
  const stopping = new AbortController()
  const scans = new Map<string, { readonly guest: UnknownGuest; readonly times: number }>()
  const bytes = createBucket(responseBytes.perSecond, responseBytes.burst, clock)
  const confirmed = () => [...scans.values()].filter(({ times }) => times > 1)

  const scan = async (): Promise<void> => {
    const found = new Map<string, UnknownGuest>()
    const podUIDs = (await readdir(join(kubeletRoot, 'pods'))).values()
    const ask = async (): Promise<void> => {
      for (const podUID of podUIDs) {
        if (stopping.signal.aborted || podsOfVms()?.has(podUID) !== false) continue
        const guest = await guestOf(podUID)
        if (guest !== undefined) found.set(podUID, guest)
        const debtMs = bytes.take(0)
        if (debtMs > 0) await pause(debtMs)
      }
    }
    await Promise.all(Array.from({ length: concurrency }, ask))
    for (const podUID of scans.keys()) if (!found.has(podUID)) scans.delete(podUID)
    for (const [podUID, guest] of found) scans.set(podUID, { guest, times: (scans.get(podUID)?.times ?? 0) + 1 })
    for (const { guest, times } of confirmed()) {
      if (times % scansPerLog === 2)
        log.warn(guest, 'a pod of this node reports a guest that the API server does not have')
    }
  }

  const guestOf = async (podUID: string): Promise<UnknownGuest | undefined> => {
    const hold = () => ({ grow: () => {}, release: () => {} })
    try {
      const launcher = launcherOf(podUID, { deadlineMs, responses: bytes, events: bytes, hold })
      const report = await launcher.report()
      return isAlive(report) && uidForm.test(report.vmUID) ? { podUID, vmUID: report.vmUID } : undefined
    } catch (error) {
      // Most pods have no launcher, and one that does not respond proves nothing.
      if (!(error instanceof LauncherAbsent)) log.debug({ err: error, podUID }, 'could not read an unknown launcher')
      return undefined
    }
  }

  /** Ends early when this stops. */
  const pause = (ms: number): Promise<void> => sleep(clock, ms, stopping.signal).catch(() => {})

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await scan().catch((error: unknown) => log.warn({ err: error }, 'could not look for unknown guests'))
      await pause(scanIntervalMs)
    }
  }

  const running = run()
  return {
    list: () => confirmed().map(({ guest }) => guest),
    async stop() {
      stopping.abort()
      await running
    },
  }
}

/** `virtset_unknown_guests`. */
export function observeUnknownGuests(registry: Registry, guests: Pick<UnknownGuests, 'list'>): void {
  new Gauge({
    name: 'virtset_unknown_guests',
    help: 'Guests that run on the node of this handler and that the API server does not have',
    registers: [registry],
    collect() {
      this.set(guests.list().length)
    },
  })
}

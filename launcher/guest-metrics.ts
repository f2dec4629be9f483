import type { GuestMetrics, NetworkMetrics } from '../api/guest-metrics.ts'
import type { Clock } from '../runtime/clock.ts'
import type { GuestSession } from './guest-session.ts'
import type { DomainStats } from './libvirt/domain-stats.ts'
import { Refused } from './refused.ts'

interface GuestMetricsOptions {
  /** Undefined if the guest does not run. */
  readonly readStats: () => Promise<DomainStats | undefined>
  /** The content of `/proc/net/dev`. */
  readonly readDevices: () => Promise<string>
  readonly clock: Clock
}

/** Readers within this time get the same metrics, so that many of them cost QEMU no more than one. */
const freshMs = 1000

/** What the guest uses, read when a session asks for it. */
export function createGuestMetrics({
  readStats,
  readDevices,
  clock,
}: GuestMetricsOptions): () => Promise<GuestSession> {
  const read = async (): Promise<GuestMetrics> => {
    const [stats, devices] = await Promise.all([readStats(), readDevices()])
    if (stats === undefined) throw new Refused('NotReady', 'the guest does not run')
    return {
      kind: 'VirtualMachineMetrics',
      apiVersion: 'subresources.virtset.io/v1alpha1',
      time: new Date(clock.now()).toISOString(),
      ...stats,
      network: networkIn(devices),
    }
  }
  let last: { readonly atMs: number; readonly metrics: Promise<GuestMetrics> } | undefined
  let isReading = false
  const recent = (): Promise<GuestMetrics> => {
    if (last !== undefined && (isReading || clock.monotonic() - last.atMs < freshMs)) return last.metrics
    isReading = true
    const metrics = read().finally(() => (isReading = false))
    last = { atMs: clock.monotonic(), metrics }
    return metrics
  }
  return async () => {
    const text = JSON.stringify(await recent())
    return { start: (socket) => void socket.resume().end(text), cancel: () => {} }
  }
}

/** The devices of the pod. What the guest sends passes one of them, with every network binding. */
export function networkIn(devices: string): NetworkMetrics[] {
  return devices.split('\n').flatMap((line) => {
    const [, name, counters = ''] = /^\s*([^\s:]+):\s*(.*)$/.exec(line) ?? []
    if (name === undefined || name === 'lo') return []
    const [receivedBytes = 0, , , , , , , , sentBytes = 0] = counters.split(/\s+/).map(Number)
    return [{ name, receivedBytes, sentBytes }]
  })
}

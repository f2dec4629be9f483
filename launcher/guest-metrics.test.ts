import { duplexPair } from 'node:stream'
import { text } from 'node:stream/consumers'
import { beforeEach, expect, test } from 'vitest'
import { type FakeClock, fakeClock } from '../test/fake-clock.ts'
import { createGuestMetrics, networkIn } from './guest-metrics.ts'
import type { DomainStats } from './libvirt/domain-stats.ts'

const devices = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     500       5    0    0    0     0          0         0      500       5    0    0    0     0       0          0
  eth0: 8794240     651    0    0    0     0          0         0    50221     410    0    0    0     0       0          0
  net1:7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0
`
const network = [
  { name: 'eth0', receivedBytes: 8_794_240, sentBytes: 50_221 },
  { name: 'net1', receivedBytes: 7, sentBytes: 9 },
]

const stats: DomainStats = {
  cpu: { usageSeconds: 12.5, count: 2 },
  memory: { totalBytes: 1024, residentBytes: 2048 },
  disks: [],
}

let clock: FakeClock
let reads: number
let found: DomainStats | undefined | Error
let open: ReturnType<typeof createGuestMetrics>
beforeEach(() => {
  clock = fakeClock()
  reads = 0
  found = stats
  open = createGuestMetrics({
    readStats: async () => {
      reads++
      if (found instanceof Error) throw found
      return found
    },
    readDevices: async () => devices,
    clock,
  })
})

async function read(): Promise<unknown> {
  const session = await open()
  const [ours, theirs] = duplexPair()
  session.start(theirs)
  return JSON.parse(await text(ours))
}

test('a session gets the metrics, then the end', async () => {
  expect(await read()).toEqual({
    kind: 'VirtualMachineMetrics',
    apiVersion: 'subresources.virtset.io/v1alpha1',
    time: new Date(clock.now()).toISOString(),
    ...stats,
    network,
  })
})

test('any number of sessions within a second read once', async () => {
  await Promise.all([read(), read(), read()])
  await clock.advance(999)
  await read()
  expect(reads).toBe(1)
  await clock.advance(1)
  await read()
  expect(reads).toBe(2)
})

test('a guest that does not run is refused', async () => {
  found = undefined
  await expect(open()).rejects.toMatchObject({ reason: 'NotReady', message: 'the guest does not run' })
})

test('an error is that of each session within the second, and of no later one', async () => {
  found = new Error('no connection')
  await expect(open()).rejects.toThrow('no connection')
  await expect(open()).rejects.toThrow('no connection')
  found = stats
  await clock.advance(1000)
  expect(await read()).toMatchObject(stats)
})

test.each(['', 'nonsense', 'lo: 1 2 3'])('devices %j have no metrics', (content) => {
  expect(networkIn(content)).toEqual([])
})

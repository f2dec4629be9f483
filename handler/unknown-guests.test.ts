import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createLogger } from '../runtime/log.ts'
import { createMetrics } from '../runtime/metrics.ts'
import { fakeClock, type FakeClock } from '../test/fake-clock.ts'
import { startFakeLauncher, type FakeLauncher } from '../test/fake-launcher.ts'
import { until } from '../test/until.ts'
import { launcherOf } from './launcher.ts'
import { findUnknownGuests, observeUnknownGuests, type UnknownGuests } from './unknown-guests.ts'

const podUIDs = {
  known: '0f0e0d0c-0b0a-4908-8706-050403020100',
  lost: '0f0e0d0c-0b0a-4908-8706-050403020101',
  waiting: '0f0e0d0c-0b0a-4908-8706-050403020102',
  ended: '0f0e0d0c-0b0a-4908-8706-050403020103',
  killed: '0f0e0d0c-0b0a-4908-8706-050403020104',
  forged: '0f0e0d0c-0b0a-4908-8706-050403020105',
}
const vmOf = (podUID: string): string => podUID.replace('0f0e', 'aaaa')

let root: string
let clock: FakeClock
let guests: UnknownGuests
let logged: string[]
let launchers: FakeLauncher[]
let podsOfVms: ReadonlySet<string> | undefined

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'kubelet-'))
  clock = fakeClock()
  logged = []
  launchers = []
  podsOfVms = new Set([podUIDs.known])
  const launch = async (podUID: string, phase: 'Running' | 'Waiting' | 'Shutoff', vmUID = vmOf(podUID)) => {
    const launcher = await startFakeLauncher(root, podUID)
    launcher.become({ vmUID, phase })
    launchers.push(launcher)
    return launcher
  }
  await launch(podUIDs.known, 'Running')
  await launch(podUIDs.lost, 'Running')
  await launch(podUIDs.waiting, 'Waiting')
  await launch(podUIDs.ended, 'Shutoff')
  await launch(podUIDs.forged, 'Running', 'the VM of payroll\u001b[2J')
  const killed = await launch(podUIDs.killed, 'Running')
  killed.kill()
})

afterEach(async () => {
  await guests.stop()
  for (const launcher of launchers) await launcher.close()
  await rm(root, { recursive: true, force: true })
})

/** Resolves once `count` scans are complete. */
async function scan(count: number): Promise<void> {
  const log = createLogger({ process: 'handler', to: { write: (line) => logged.push(line) } })
  const ofPod = (podUID: string, limits: Parameters<typeof launcherOf>[2]) => launcherOf(root, podUID, limits, clock)
  guests = findUnknownGuests({ kubeletRoot: root, podsOfVms: () => podsOfVms, launcherOf: ofPod, log, clock })
  for (let scans = 1; scans <= count; scans++) {
    // Between scans, the pause is the only timer.
    await until(() => clock.pending() === 1 && clock.nextMs() === 60_000)
    if (scans < count) await clock.advance(60_000)
  }
}

const lost = { podUID: podUIDs.lost, vmUID: vmOf(podUIDs.lost) }

test('a guest that runs in two scans, whose pod is of no VM and that has the UID of one, is reported', async () => {
  await scan(1)
  expect(guests.list()).toEqual([])
  await guests.stop()
  await scan(2)
  expect(guests.list()).toEqual([lost])
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([{ level: 'warn', ...lost }])
  const registry = createMetrics()
  observeUnknownGuests(registry, guests)
  expect(await registry.getSingleMetricAsString('virtset_unknown_guests')).toContain('virtset_unknown_guests 1')
})

test('it is logged every ten minutes, not each minute', async () => {
  await scan(12)
  expect(logged).toHaveLength(2)
})

test('nothing is reported before the VMs of the node are known', async () => {
  podsOfVms = undefined
  await scan(3)
  expect(guests.list()).toEqual([])
})

test('a guest that has ended, or whose VM is back, is not reported any more', async () => {
  await scan(2)
  podsOfVms = new Set([podUIDs.known, podUIDs.lost])
  await clock.advance(60_000)
  await until(() => clock.nextMs() === 60_000 && guests.list().length === 0)
  expect(guests.list()).toEqual([])
})

test('only reads from launchers', async () => {
  await scan(3)
  expect(launchers.flatMap(({ asked }) => asked)).toEqual([])
})

test('pods that send large reports delay the scan instead of taking CPU time', async () => {
  const large = {
    vmUID: vmOf(podUIDs.known),
    phase: 'Running',
    domain: { description: 'x'.repeat(900 * 1024) },
  } as const
  const forgers: FakeLauncher[] = []
  for (let pod = 10; pod < 30; pod++) {
    const forger = await startFakeLauncher(root, podUIDs.known.replace(/..$/, String(pod)))
    forger.become(large)
    forgers.push(forger)
  }
  launchers.push(...forgers)
  const read = () => forgers.reduce((sum, { reads }) => sum + reads, 0)
  // Only the pauses between requests are of the fake clock.
  const ofPod = (podUID: string, limits: Parameters<typeof launcherOf>[2]) => launcherOf(root, podUID, limits)
  const log = createLogger({ process: 'handler', level: 'silent' })
  guests = findUnknownGuests({ kubeletRoot: root, podsOfVms: () => podsOfVms, launcherOf: ofPod, log, clock })
  await until(() => clock.pending() === 8 || clock.nextMs() === 60_000)
  expect(read()).toBeLessThan(20)
  await until(
    () => read() === 20,
    () => clock.advance(1000),
  )
  expect(clock.monotonic()).toBeGreaterThan(10_000)
})

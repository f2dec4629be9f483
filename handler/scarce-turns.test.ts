import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { VirtualMachineStatus } from '../api/virtual-machine.ts'
import { sleep } from '../runtime/clock.ts'
import { createKubeClient, type KubeClient } from '../runtime/kube.ts'
import { launcherVersion, type DomainReport } from '../runtime/launcher-api.ts'
import { createLogger } from '../runtime/log.ts'
import { startFakeApiServer, type FakeApiServer } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { startHandler, type Handler } from './handler.ts'
import { LauncherRefusal, LauncherUnreachable, type Launcher, type LauncherLimits } from './launcher.ts'
import { createNetworkClient } from './network-client.ts'

/** A large VM, while those of three other namespaces, which are larger, always have something to write. */

const collection = '/apis/virtset.io/v1alpha1/virtualmachines'
const uidOf = (index: number) => `0f0e0d0c-0b0a-4908-8706-${String(index).padStart(12, '0')}`
const ownUID = uidOf(0)

let clock: ReturnType<typeof fakeClock>
let api: FakeApiServer
let kube: KubeClient
let handler: Handler
let reportOf: (limits: LauncherLimits) => Promise<Partial<DomainReport>>

beforeEach(async () => {
  clock = fakeClock()
  api = await startFakeApiServer()
  kube = createKubeClient({ access: api.access, userAgent: 'virtset-handler' })
  let reports = 0
  const launcherOf = (uid: string, limits: LauncherLimits): Launcher => ({
    putCapabilities: async () => {},
    putNetwork: async () => {},
    put: () => Promise.reject(new LauncherRefusal('BadRequest', 'unknown field')),
    putVolumes: async () => {},
    shutdown: () => Promise.reject(new LauncherRefusal('BadRequest', 'unknown field')),
    freeze: async () => {},
    thaw: async () => {},
    final: async () => {},
    hasVolume: async () => true,
    watch: (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    report: async () => ({
      version: launcherVersion,
      vmUID: uid,
      phase: 'Paused',
      reason: '',
      observedAt: '2026-01-02T03:04:05Z',
      ...(uid === ownUID ? await reportOf(limits) : { message: String(reports++) }),
    }),
  })
  handler = startHandler({
    kube,
    nodeName: 'node1',
    launcherOf,
    addressesOf: async () => ['10.244.0.9'],
    readCapabilities: async () => undefined,
    network: createNetworkClient('/none'),
    attachments: { place: async () => false, hasEnded: async () => true },
    recordEvent: () => {},
    log: createLogger({ process: 'handler', to: { write: () => {} } }),
    clock,
  })
})

afterEach(async () => {
  const stopped = handler.stop()
  // Its launcher may be about to respond.
  await clock.advance(5000)
  await stopped
  await kube.close()
  await api.close()
})

function put(index: number, phase: string, bytes: number, more: object = {}): void {
  const labels = { text: 'x'.repeat(bytes) }
  api.put(collection, {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', namespace: `n${index}`, uid: uidOf(index), labels, ...more },
    spec: { domain: {} },
    status: { phase, nodeName: 'node1', podUID: uidOf(index) },
  })
}

const isStored = (text: string): boolean => {
  const { conditions = [] }: VirtualMachineStatus = api.find(collection, 'n0', 'vm')?.['status'] ?? {}
  return conditions.some(({ message }) => message.includes(text))
}

/** The rounds are real, and take some milliseconds. */
async function isStoredWithin(text: string, seconds: number): Promise<boolean> {
  for (let tenths = 0; tenths < 10 * seconds && !isStored(text); tenths++) {
    await clock.advance(100)
    await delay(4)
  }
  return isStored(text)
}

async function occupyTurns(): Promise<void> {
  for (const index of [1, 2, 3]) put(index, 'Running', 4 * 1024 * 1024)
  for (let tenths = 0; tenths < 200; tenths++) {
    await clock.advance(100)
    await delay(4)
  }
}

test('has its turn although its launcher always needs longer than the first deadline', async () => {
  reportOf = async ({ deadlineMs }) => {
    await sleep(clock, Math.min(deadlineMs, 1500))
    if (deadlineMs < 1500) throw new LauncherUnreachable('no response in time')
    return { message: 'what it reports' }
  }
  await occupyTurns()
  put(0, 'Running', 400_000)
  expect(await isStoredWithin('what it reports', 120)).toBe(true)
})

test('has its turn although its launcher refuses to shut it down', async () => {
  reportOf = async () => ({ phase: 'Running' })
  await occupyTurns()
  put(0, 'Running', 400_000, { deletionTimestamp: '2030-01-01T00:00:00Z', finalizers: ['virtset.io/launcher-pod'] })
  expect(await isStoredWithin('unknown field', 120)).toBe(true)
})

test('has its turn although its launcher refuses it', async () => {
  reportOf = async () => ({ vmUID: '', phase: 'Waiting' })
  await occupyTurns()
  put(0, 'Scheduled', 400_000)
  expect(await isStoredWithin('unknown field', 120)).toBe(true)
})

import { syncBuiltinESMExports } from 'node:module'
import fs, { constants } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Clock } from '../runtime/clock.ts'
import { HeldDevices, isHeld } from './held-device.ts'

/** Only a device can be held. Of these files, the first `busy` attempts to hold them fail, as the kernel's would. */
let busy: number
let delays: number[]
let directory: string
const before = fs.open
const device = (name = 'one') => join(directory, name)

beforeEach(async () => {
  ;[busy, delays] = [0, []]
  directory = await mkdtemp(join(tmpdir(), 'devices-'))
  for (const name of ['one', 'two']) await writeFile(device(name), '')
  Object.assign(fs, { open })
  syncBuiltinESMExports()
})
afterEach(async () => {
  Object.assign(fs, { open: before })
  syncBuiltinESMExports()
  await rm(directory, { recursive: true })
})

function open(path: string, flags: number, done: (error: Error | null, descriptor?: number) => void): void {
  if (flags !== (constants.O_RDONLY | constants.O_EXCL)) return before(path, flags, done)
  busy -= 1
  if (busy >= 0) return done(Object.assign(new Error(`EBUSY: ${path}`), { code: 'EBUSY' }))
  before(path, flags, done)
}

const clock: Clock = {
  now: () => 0,
  monotonic: () => 0,
  after(delayMs, run) {
    delays.push(delayMs)
    queueMicrotask(run)
    return () => {}
  },
}
const devices = () => new HeldDevices(clock)

const ways: [string, (held: HeldDevices) => Promise<unknown>][] = [
  ['held', (held) => held.hold(device())],
  ['held during some work', (held) => held.during(device(), async () => {})],
  ['looked at', (held) => held.check(device())],
]

test.each(ways)('a device can be %s when the one that had it for a moment has closed it', async (_, use) => {
  busy = 9
  await use(devices())
  expect(delays).toEqual(Array(9).fill(100))
})

test.each(ways)('a device cannot be %s while another has it', async (_, use) => {
  busy = 10
  const error = await use(devices()).catch((one: unknown) => one)
  expect([isHeld(error), String(error)]).toEqual([true, `DeviceHeld: EBUSY: ${device()}`])
})

test.each(ways)('a device that is not there cannot be %s', async (_, use) => {
  await rm(device())
  const error = await use(devices()).catch((one: unknown) => one)
  expect([isHeld(error), String(error)]).toEqual([false, expect.stringContaining('ENOENT')])
})

test.each(ways)('a device that is held already can be %s', async (_, use) => {
  const held = devices()
  await held.hold(device())
  busy = 10
  await use(held)
  expect(busy).toBe(10)
})

test('what holds a device can look at it by another device node', async () => {
  const held = devices()
  await held.hold(device())
  busy = 10
  // These files have the same device number: none.
  await held.check(device('two'))
  await held.hold(device('two'))
  expect(busy).toBe(10)
})

test('a device that was released can be held by another VM, and again by this one', async () => {
  const held = devices()
  await held.hold(device())
  held.release()
  busy = 10
  await expect(held.hold(device())).rejects.toThrow('EBUSY')
  await held.hold(device())
})

test('a device that was held during some work is not held after it failed', async () => {
  const held = devices()
  await expect(held.during(device(), () => Promise.reject(new Error('full')))).rejects.toThrow('full')
  busy = 10
  await expect(held.hold(device())).rejects.toThrow('EBUSY')
})

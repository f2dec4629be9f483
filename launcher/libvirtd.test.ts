import { ChildProcess } from 'node:child_process'
import { beforeEach, expect, test } from 'vitest'
import { createLogger } from '../runtime/log.ts'
import { type FakeClock, fakeClock } from '../test/fake-clock.ts'
import { type Daemon, keepLibvirtd } from './libvirtd.ts'

let clock: FakeClock
let children: ChildProcess[]
let signals: unknown[]
let isDeaf: boolean
let startedAtMs: number[]
let daemon: Daemon

beforeEach(() => {
  clock = fakeClock()
  children = []
  signals = []
  isDeaf = false
  startedAtMs = []
  daemon = keepLibvirtd({
    clock,
    log: createLogger({ process: 'launcher', level: 'silent' }),
    spawn: () => {
      startedAtMs.push(clock.monotonic())
      const child = new ChildProcess()
      child.kill = (signal) => {
        signals.push(signal)
        if (signal === 'SIGKILL' || !isDeaf) child.emit('exit', 0, null)
        return true
      }
      children.push(child)
      return child
    },
  })
})

const die = () => children.at(-1)?.emit('exit', null, 'SIGKILL')

test('a daemon that ends is restarted, with a longer delay each time', async () => {
  for (let death = 0; death < 8; death += 1) {
    die()
    await clock.advance(5000)
  }
  expect(startedAtMs.map((at) => at % 5000)).toEqual([0, 100, 200, 400, 800, 1600, 3200, 0, 0])
})

test('a daemon that had run is restarted at once', async () => {
  die()
  await clock.advance(100 + 10_001)
  die()
  await clock.advance(100)
  expect(startedAtMs).toEqual([0, 100, 10_201])
})

test('a daemon that cannot be spawned is retried', async () => {
  children[0]?.emit('error', new Error('spawn libvirtd ENOENT'))
  await clock.advance(100)
  expect(startedAtMs).toEqual([0, 100])
})

test('a daemon that is stopped is not restarted', async () => {
  await daemon.stop()
  expect(signals).toEqual(['SIGTERM'])
  await clock.advance(60_000)
  expect(startedAtMs).toEqual([0])
})

test('a daemon that ignores SIGTERM is killed after 5 s', async () => {
  isDeaf = true
  const stopped = daemon.stop()
  await clock.advance(5000)
  await stopped
  expect(signals).toEqual(['SIGTERM', 'SIGKILL'])
})

test('a daemon that hangs is ended with SIGKILL and restarted', async () => {
  isDeaf = true
  await clock.advance(60_000)
  daemon.endHung()
  await clock.advance(100)
  expect(signals).toEqual(['SIGKILL'])
  expect(startedAtMs).toEqual([0, 60_100])
})

test.each<[string, () => Promise<void>]>([
  ['of which the previous one was silent', () => clock.advance(59_999)],
  [
    'that is not running',
    async () => {
      await clock.advance(60_000)
      die()
    },
  ],
  [
    'that is stopped',
    async () => {
      await clock.advance(60_000)
      await daemon.stop()
      signals = []
    },
  ],
])('a daemon %s is not ended as one that hangs', async (_, prepare) => {
  await prepare()
  daemon.endHung()
  expect(signals).toEqual([])
})

test('stopping while no daemon runs starts none', async () => {
  die()
  await daemon.stop()
  await clock.advance(60_000)
  expect(startedAtMs).toEqual([0])
})

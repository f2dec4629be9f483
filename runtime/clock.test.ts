import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { microTimestamp, sleep, systemClock, timestamp } from './clock.ts'

describe('system clock', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('supports delays longer than Node does', () => {
    const dayMs = 24 * 60 * 60 * 1000
    const fired = vi.fn<() => void>()
    systemClock.after(60 * dayMs, fired)
    vi.advanceTimersByTime(60 * dayMs - 1)
    expect(fired).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1)
    expect(fired).toHaveBeenCalledTimes(1)
  })

  it('can be cancelled at any time', () => {
    const fired = vi.fn<() => void>()
    const cancel = systemClock.after(2 ** 32, fired)
    vi.advanceTimersByTime(2 ** 31)
    cancel()
    vi.advanceTimersByTime(2 ** 33)
    expect(fired).not.toHaveBeenCalled()
  })
})

describe('sleep', () => {
  it('ends after its delay or with the signal, and leaves no timer', async () => {
    const clock = fakeClock()
    const done = sleep(clock, 100).then(() => 'done')
    await clock.advance(100)
    expect(await done).toBe('done')
    const stop = new AbortController()
    const stopped = sleep(clock, 100, stop.signal).catch(String)
    stop.abort('stop')
    expect(await stopped).toBe('stop')
    expect(await sleep(clock, 100, stop.signal).catch(String)).toBe('stop')
    expect(clock.pending()).toBe(0)
  })
})

describe('timestamps', () => {
  it('are written as Kubernetes writes them', () => {
    const clock = { now: () => Date.UTC(2030, 0, 2, 3, 4, 5, 678) }
    expect(timestamp(clock)).toBe('2030-01-02T03:04:05Z')
    expect(microTimestamp(clock)).toBe('2030-01-02T03:04:05.678000Z')
  })
})

import { describe, expect, it } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createBackOff } from './back-off.ts'

describe('back-off', () => {
  const start = (chance: number) => {
    const clock = fakeClock()
    const options = { firstMs: 100, longestMs: 350, healthyMs: 1000, clock, random: () => chance }
    return { clock, backOff: createBackOff(options) }
  }

  it('doubles up to the longest', () => {
    const { backOff } = start(0)
    expect([backOff.next(), backOff.next(), backOff.next(), backOff.next()]).toEqual([100, 200, 350, 350])
  })

  it('has a random jitter of up to its own length', () => {
    const { backOff } = start(0.5)
    expect([backOff.next(), backOff.next()]).toEqual([150, 300])
  })

  it('starts over after a healthy time, counted from the end of the last wait', async () => {
    const { clock, backOff } = start(0)
    backOff.next()
    await clock.advance(1100)
    expect(backOff.next()).toBe(200)
    await clock.advance(1201)
    expect(backOff.next()).toBe(100)
  })
})

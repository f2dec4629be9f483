import { describe, expect, it } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createBucket, createBuckets } from './bucket.ts'

describe('bucket', () => {
  it('allows a burst, and then a rate per second', async () => {
    const clock = fakeClock()
    const bucket = createBucket(10, 3, clock)
    expect([bucket.take(), bucket.take(), bucket.take(), bucket.take(), bucket.take()]).toEqual([0, 0, 0, 100, 200])
    await clock.advance(1_000_000)
    expect([bucket.take(), bucket.take(), bucket.take(), bucket.take()]).toEqual([0, 0, 0, 100])
  })

  it('takes many tokens at once and reports the debt', async () => {
    const clock = fakeClock()
    const bucket = createBucket(10, 3, clock)
    expect([bucket.take(0), bucket.take(5), bucket.take(0)]).toEqual([0, 200, 200])
    await clock.advance(150)
    expect(bucket.take(0)).toBe(50)
  })

  it('takeIfAny takes nothing on credit', async () => {
    const clock = fakeClock()
    const bucket = createBucket(10, 1, clock)
    expect([bucket.takeIfAny(), bucket.takeIfAny(), bucket.takeIfAny()]).toEqual([true, false, false])
    await clock.advance(100)
    expect([bucket.takeIfAny(), bucket.takeIfAny()]).toEqual([true, false])
  })

  it('waitMs takes nothing', async () => {
    const clock = fakeClock()
    const bucket = createBucket(10, 1, clock)
    expect([bucket.waitMs(), bucket.takeIfAny(), bucket.waitMs(), bucket.waitMs()]).toEqual([0, true, 100, 100])
    await clock.advance(60)
    expect(bucket.waitMs()).toBe(40)
  })

  it('each key has its own', () => {
    const bucketOf = createBuckets({ perSecond: 1, burst: 1 }, 2, fakeClock())
    const take = (key: string) => bucketOf(key).takeIfAny()
    expect([take('a'), take('a'), take('b'), take('a')]).toEqual([true, false, true, false])
    // A third one displaces `b`.
    expect([take('c'), take('a'), take('b')]).toEqual([true, false, true])
  })
})

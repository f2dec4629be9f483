import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fakeClock, settle } from '../test/fake-clock.ts'
import type { FakeClock } from '../test/fake-clock.ts'
import { createLogger } from './log.ts'
import { ApiUnreachable } from './api-error.ts'
import { startWorkQueue } from './work-queue.ts'
import type { WorkQueueOptions } from './work-queue.ts'

const log = createLogger({ process: 'test', level: 'silent' })

/** A queue whose work the test ends; it lists in order what began. */
function setUp(concurrency = 2, groups?: WorkQueueOptions['groups']) {
  const clock = fakeClock()
  const began: string[] = []
  const running = new Map<string, PromiseWithResolvers<void>>()
  const queue = startWorkQueue({
    concurrency,
    ...(groups && { groups }),
    log,
    clock,
    reconcile(key) {
      if (running.has(key)) throw new Error(`${key} is worked on twice at a time`)
      began.push(key)
      const ending = Promise.withResolvers<void>()
      running.set(key, ending)
      return ending.promise.finally(() => running.delete(key))
    },
  })
  const finish = async (key: string, error?: Error) => {
    if (error) running.get(key)!.reject(error)
    else running.get(key)!.resolve()
    await settle()
  }
  return { clock, began, running, queue, finish }
}

const isEmpty = { waiting: 0, working: 0, delayed: 0, failing: 0 }

describe('work queue', () => {
  it('works on keys in the order of their addition, with limited concurrency', async () => {
    const { queue, began, finish } = setUp(2)
    for (const key of ['a', 'b', 'c']) queue.add(key)
    expect(began).toEqual(['a', 'b'])
    await finish('b')
    expect(began).toEqual(['a', 'b', 'c'])
  })

  it('gives the event loop a turn between passes that only compute', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    let passes = 0
    const reconcile = async () => {
      passes++
    }
    const queue = startWorkQueue({ concurrency: 1, log, reconcile })
    for (let key = 0; key < 1000; key++) queue.add(`${key}`)
    setImmediate(resolve)
    await promise
    expect(passes).toBeLessThan(1000)
    await queue.drain()
  })

  it('lets groups whose keys take long leave a quarter of the concurrency to others', async () => {
    const { clock, queue, began, finish } = setUp(4, { of: (key) => key.slice(0, 1), concurrency: 3 })
    for (const key of ['a1', 'b1']) queue.add(key)
    await clock.advance(4000)
    for (const key of ['a1', 'b1']) await finish(key)
    for (const key of ['a2', 'b2', 'a3', 'b3', 'c1']) queue.add(key)
    expect(began.slice(2)).toEqual(['a2', 'b2', 'a3', 'c1'])
    await finish('c1')
    expect(began.length).toBe(6)
    await finish('a2')
    expect(began.at(-1)).toBe('b3')
  })

  it('has one entry for a waiting key', async () => {
    const { queue, began, finish } = setUp(1)
    for (const key of ['a', 'b', 'b', 'b']) queue.add(key)
    await finish('a')
    await finish('b')
    expect(began).toEqual(['a', 'b'])
    expect(queue.statistics()).toEqual({ ...isEmpty, done: 2, failures: 0 })
  })

  it('runs a key once more that was added while it was worked on', async () => {
    const { queue, began, finish } = setUp()
    queue.add('a')
    queue.add('a')
    queue.add('a')
    expect(began).toEqual(['a'])
    await finish('a')
    expect(began).toEqual(['a', 'a'])
    await finish('a')
    expect(began).toEqual(['a', 'a'])
  })

  it('of several delayed additions the earliest counts', async () => {
    const { queue, began, finish, clock } = setUp()
    queue.addAfter('a', 500)
    queue.addAfter('a', 100)
    queue.addAfter('a', 900)
    await clock.advance(99)
    expect(began).toEqual([])
    await clock.advance(1)
    await finish('a')
    await clock.advance(1000)
    expect(began).toEqual(['a'])
    expect(clock.pending()).toBe(0)
  })

  it('retries a failing key with increasing delays, and forgets it when it succeeds', async () => {
    const { queue, finish, clock } = setUp()
    const waits: (number | undefined)[] = []
    queue.add('a')
    for (let failure = 0; failure < 20; failure++) {
      await finish('a', new Error('no'))
      waits.push(clock.nextMs())
      await clock.advance(clock.nextMs()!)
    }
    expect(waits.slice(0, 4)).toEqual([5, 10, 20, 40])
    expect(waits.slice(-3)).toEqual([655_360, 1_000_000, 1_000_000])
    expect(queue.statistics().failing).toBe(1)
    await finish('a')
    expect(queue.statistics()).toEqual({ ...isEmpty, done: 1, failures: 20 })
  })

  it('retries within 5 s of the end of an outage of the API server, however long that was', async () => {
    const { queue, finish, clock } = setUp()
    const waits: (number | undefined)[] = []
    queue.add('a')
    for (let failure = 0; failure < 40; failure++) {
      await finish('a', new ApiUnreachable('connect ECONNREFUSED'))
      waits.push(clock.nextMs())
      await clock.advance(clock.nextMs()!)
    }
    expect([waits[0], waits[9], Math.max(...waits.map(Number))]).toEqual([5, 2560, 5000])
    await finish('a', new Error('no role yet'))
    expect(clock.nextMs()).toBe(5120)
  })

  it('drains: completes the keys in progress, drops those that wait, and accepts no more', async () => {
    const { queue, began, finish, clock } = setUp(1)
    queue.add('a')
    queue.add('b')
    queue.addAfter('c', 10)
    let isDrained = false
    const draining = queue.drain().then(() => (isDrained = true))
    queue.add('d')
    queue.addAfter('d', 1)
    await clock.advance(1000)
    expect(isDrained).toBe(false)
    await finish('a', new Error('no'))
    await draining
    expect(began).toEqual(['a'])
    expect(queue.statistics()).toMatchObject({ waiting: 0, working: 0, delayed: 0 })
    expect(clock.pending()).toBe(0)
  })

  it('never works on a key twice at a time, loses no addition, and ends empty', async () => {
    const key = fc.constantFrom('a', 'b', 'c', 'd')
    const action = fc.oneof(
      fc.record({ do: fc.constant('add' as const), key }),
      fc.record({ do: fc.constant('after' as const), key, ms: fc.integer({ min: 0, max: 1000 }) }),
      fc.record({ do: fc.constantFrom('finish' as const, 'fail' as const), key }),
      fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 500 }) }),
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(action, { maxLength: 40 }),
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 1, max: 3 }),
        async (actions, concurrency, groupConcurrency) => {
          const groups = { of: (name: string) => (name < 'c' ? 'first' : 'second'), concurrency: groupConcurrency }
          const { queue, began, running, finish, clock } = setUp(concurrency, groups)
          /** For each key, how often work on it had begun when it was last added. */
          const addedAt = new Map<string, number>()
          const begunOf = (name: string) => began.filter((other) => other === name).length
          for (const one of actions) {
            if (one.do === 'wait') await clock.advance(one.ms)
            else if (one.do === 'add' || one.do === 'after') {
              addedAt.set(one.key, begunOf(one.key))
              if (one.do === 'add') queue.add(one.key)
              else queue.addAfter(one.key, one.ms)
            } else if (running.has(one.key)) await finish(one.key, one.do === 'fail' ? new Error('no') : undefined)
            // Those that are late are not counted.
            expect(running.size).toBeLessThanOrEqual(2 * concurrency)
            const first = [...running.keys()].filter((name) => groups.of(name) === 'first')
            expect(first.length).toBeLessThanOrEqual(groupConcurrency)
          }
          await runDry(clock, running, finish)
          for (const [name, count] of addedAt) expect(begunOf(name)).toBeGreaterThan(count)
          expect(queue.statistics()).toMatchObject(isEmpty)
          expect(clock.pending()).toBe(0)
        },
      ),
      { numRuns: 150 },
    )
  })
})

describe('work queue with groups', () => {
  const groups = { of: (key: string) => key.slice(0, key.indexOf('/')), concurrency: 2 }

  it('limits the concurrency of one group, and works on the other groups meanwhile', async () => {
    const { queue, began, finish } = setUp(10, groups)
    for (const key of ['a/1', 'a/2', 'a/3', 'a/4', 'b/1']) queue.add(key)
    expect(began).toEqual(['a/1', 'a/2', 'b/1'])
    await finish('a/2')
    expect(began).toEqual(['a/1', 'a/2', 'b/1', 'a/3'])
  })

  it('lets groups take turns, whatever the number of their keys', async () => {
    const { queue, began, finish } = setUp(1, groups)
    for (const key of ['a/1', 'a/2', 'a/3', 'a/4', 'b/1', 'b/2', 'c/1']) queue.add(key)
    while (began.length < 7) await finish(began.at(-1)!)
    expect(began).toEqual(['a/1', 'a/2', 'b/1', 'c/1', 'a/3', 'b/2', 'a/4'])
  })

  it('is not blocked by keys of one group that never finish', async () => {
    const { queue, began, finish } = setUp(6, groups)
    for (let index = 0; index < 1000; index++) queue.add(`mute/${index}`)
    for (let index = 0; index < 20; index++) queue.add(`fine/${index}`)
    for (let index = 0; index < 20; index++) await finish(`fine/${index}`)
    expect(began.filter((key) => key.startsWith('fine/'))).toHaveLength(20)
    expect(began.filter((key) => key.startsWith('mute/'))).toHaveLength(2)
  })

  it('limits the retries of each group by itself', async () => {
    const { queue, finish, clock } = setUp(1000, { ...groups, concurrency: 1000 })
    for (let index = 0; index < 300; index++) queue.add(`bad/${index}`)
    for (let index = 0; index < 300; index++) await finish(`bad/${index}`, new Error('no'))
    queue.add('fine/1')
    await finish('fine/1', new Error('no'))
    const before = queue.statistics().delayed
    await clock.advance(5)
    // The first hundred of the one group, and the only key of the other.
    expect([before, queue.statistics().delayed]).toEqual([301, 200])
  })

  it('logs few of the failures of a group, however often its keys are added, and those of others', async () => {
    const clock = fakeClock()
    const lines: { key: string; omitted?: number }[] = []
    const queue = startWorkQueue({
      reconcile: () => Promise.reject(new Error('no')),
      concurrency: 10,
      groups,
      log: createLogger({ process: 'test', to: { write: (line) => lines.push(JSON.parse(line)) } }),
      clock,
    })
    for (let second = 0; second < 20; second++) {
      for (let index = 0; index < 50; index++) queue.add(`bad/${index}`)
      await clock.advance(1000)
    }
    queue.add('fine/1')
    await clock.advance(0)
    expect(queue.statistics().failures).toBeGreaterThan(500)
    const ofBad = lines.filter(({ key }) => key.startsWith('bad/'))
    expect([ofBad.length, lines.length]).toEqual([16 + 20 / 10, 19])
    expect(lines.at(-1)).toMatchObject({ level: 'warn', key: 'fine/1', waitMs: 5, msg: 'reconcile failed; retrying' })
  })
})

async function runDry(clock: FakeClock, running: ReadonlyMap<string, unknown>, finish: (key: string) => Promise<void>) {
  while (running.size > 0 || clock.pending() > 0) {
    for (const key of running.keys()) await finish(key)
    await clock.advance(clock.nextMs() ?? 0)
  }
}

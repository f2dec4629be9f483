import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createWriteTurns } from './write-turns.ts'

interface Given {
  weight?: number
  all?: number
  perNamespace?: number
  perSecond?: number
  burst?: number
}

/** Keys are `namespace/name`. */
function start(given: Given = {}) {
  const { weight = Infinity, all = Infinity, perNamespace = Infinity, perSecond = 100, burst = 200 } = given
  const clock = fakeClock()
  const announced: string[] = []
  const inProgress = { weight, all, perNamespace }
  const turns = createWriteTurns({ perSecond, burst, inProgress }, clock, (key) => announced.push(key))
  const begun: string[] = []
  const weights = new Map<string, number>()
  const take = (key: string, ofWeight = weights.get(key) ?? 0): boolean => {
    weights.set(key, ofWeight)
    const isTaken = turns.take(key, key.split('/')[0]!, ofWeight)
    if (isTaken) begun.push(key)
    return isTaken
  }
  /** Uses the turns that were announced. */
  const use = () => {
    for (const key of announced.splice(0)) take(key)
  }
  const advance = async (ms: number) => {
    for (let left = ms; left > 0; left -= 10) {
      await clock.advance(Math.min(left, 10))
      use()
    }
  }
  return { clock, turns, announced, begun, take, use, advance }
}

test('writes begin at the rate after a burst, and namespaces take turns', async () => {
  const { begun, take, advance } = start()
  for (const name of ['a/1', 'a/2', 'a/3', 'a/4']) take(name, 150)
  take('b/1', 10)
  expect(begun).toEqual(['a/1', 'a/2'])
  await advance(990)
  expect(begun).toEqual(['a/1', 'a/2'])
  await advance(10)
  expect(begun).toEqual(['a/1', 'a/2', 'b/1'])
  await advance(100)
  expect(begun).toEqual(['a/1', 'a/2', 'b/1', 'a/3'])
  await advance(1500)
  expect(begun).toEqual(['a/1', 'a/2', 'b/1', 'a/3', 'a/4'])
})

test('a namespace with few writes does not wait for all of those with many', async () => {
  const { begun, take, advance } = start()
  for (const name of ['a', 'b', 'c']) for (const number of [1, 2, 3]) take(`${name}/${number}`, 300)
  await advance(1000)
  const before = begun.length
  take('small/1', 10)
  await advance(3000)
  expect(begun[before]).toBe('small/1')
})

test('as many writes are in progress as fit by their weight, or one', () => {
  const { turns, begun, take, use } = start({ weight: 50 })
  const end = (key: string) => {
    turns.end(key)
    use()
  }
  take('a/1', 20)
  take('a/2', 30)
  take('a/3', 60)
  take('a/4', 10)
  take('b/1', 40)
  expect(begun).toEqual(['a/1', 'a/2'])
  end('a/1')
  end('a/1')
  expect(begun).toEqual(['a/1', 'a/2'])
  end('a/2')
  expect(begun).toEqual(['a/1', 'a/2', 'b/1'])
  end('b/1')
  expect(begun).toEqual(['a/1', 'a/2', 'b/1', 'a/3'])
  end('a/3')
  expect(begun).toEqual(['a/1', 'a/2', 'b/1', 'a/3', 'a/4'])
})

test('few writes are in progress, and fewer of a namespace', () => {
  const { turns, begun, take, use } = start({ all: 3, perNamespace: 2 })
  for (const key of ['a/1', 'a/2', 'a/3', 'b/1', 'b/2']) take(key, 10)
  expect(begun).toEqual(['a/1', 'a/2', 'b/1'])
  turns.end('b/1')
  use()
  expect(begun.slice(3)).toEqual(['b/2'])
  turns.end('a/2')
  use()
  expect(begun.slice(4)).toEqual(['a/3'])
})

test('a namespace that has as many as it can in progress does not save up turns meanwhile', () => {
  const { turns, begun, take, use } = start({ weight: 20, perNamespace: 2, burst: 10_000 })
  take('a/1', 5)
  take('a/2', 5)
  for (let index = 3; index < 7; index++) take(`a/${index}`, 10)
  for (let index = 0; index < 20; index++) {
    take(`b/${index}`, 10)
    turns.end(`b/${index}`)
  }
  for (let index = 20; index < 24; index++) take(`b/${index}`, 10)
  const before = begun.length
  for (let round = 0; round < 4; round++) {
    for (const key of begun) turns.end(key)
    use()
  }
  expect(begun.slice(before, before + 4).some((key) => key.startsWith('b'))).toBe(true)
})

test('a key whose write is in progress is announced when that has ended', () => {
  const { turns, announced, take } = start()
  expect([take('a/1', 10), take('a/1', 10), take('a/1', 10)]).toEqual([true, false, false])
  expect(announced).toEqual([])
  turns.end('a/1')
  expect(announced).toEqual(['a/1'])
  expect(take('a/1', 10)).toBe(true)
})

test('a turn that is not used for a second is given to the next', async () => {
  const { clock, announced, take, turns } = start({ all: 1 })
  take('a/1', 10)
  take('b/1', 10)
  take('c/1', 10)
  turns.end('a/1')
  expect(announced).toEqual(['b/1'])
  await clock.advance(999)
  expect(announced).toEqual(['b/1'])
  await clock.advance(1)
  expect(announced).toEqual(['b/1', 'c/1'])
  expect(take('c/1', 10)).toBe(true)
  await clock.advance(5000)
  expect(take('d/1', 10)).toBe(false)
})

test('a turn that was not used in time can be used late, beside as many as may be in progress', async () => {
  const { clock, take, turns } = start({ all: 2 })
  for (const key of ['a/1', 'a/2', 'b/1', 'c/1', 'd/1', 'e/1', 'f/1', 'f/2']) take(key, 10)
  turns.end('a/1')
  turns.end('a/2')
  await clock.advance(2000)
  expect([take('f/1'), take('f/2')]).toEqual([true, true])
  expect([take('b/1'), take('c/1'), take('d/1')]).toEqual([true, true, false])
  turns.end('b/1')
  expect([take('e/1', 11), take('e/1', 10), take('b/1', 10)]).toEqual([true, false, false])
})

test('a key that gives up its place is not announced, and others get its turn', () => {
  const { announced, take, turns } = start({ all: 1 })
  for (const key of ['a/1', 'a/2', 'b/1', 'c/1']) take(key, 10)
  turns.leave('a/1')
  expect(announced).toEqual([])
  turns.leave('a/2')
  turns.end('a/1')
  expect(announced).toEqual(['b/1'])
  turns.leave('b/1')
  expect(announced).toEqual(['b/1', 'c/1'])
})

test('a write that has become heavier than its turn needs another, unless it fits', () => {
  const { announced, take, turns } = start({ weight: 50 })
  take('a/1', 50)
  take('a/2', 10)
  take('b/1', 40)
  turns.end('a/1')
  expect(announced).toEqual(['b/1', 'a/2'])
  expect([take('b/1', 39), take('a/2', 12)]).toEqual([true, false])
  turns.end('b/1')
  expect(announced).toEqual(['b/1', 'a/2', 'a/2'])
  expect(take('a/2', 13)).toBe(true)
})

test('turns that are not used are paid for, so others have theirs', async () => {
  const { clock, begun, announced, take, turns } = start({ all: 1, burst: 10_000, perSecond: 10_000 })
  take('first/1', 10)
  for (let index = 0; index < 20; index++) take(`hostile/${index}`, 10)
  for (let index = 0; index < 3; index++) take(`honest/${index}`, 10)
  turns.end('first/1')
  begun.length = 0
  for (let second = 0; second < 6; second++) {
    for (const key of announced.splice(0)) {
      if (key.startsWith('honest') && take(key)) turns.end(key)
    }
    await clock.advance(1000)
  }
  expect(begun).toEqual(['honest/0', 'honest/1', 'honest/2'])
})

const actions = fc.array(
  fc.record({
    what: fc.constantFrom('take', 'take', 'take', 'end', 'leave', 'wait', 'use'),
    key: fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.nat(4)).map(([namespace, name]) => `${namespace}/${name}`),
    weight: fc.integer({ min: 1, max: 60 }),
  }),
  { maxLength: 60 },
)

test('whatever happens, the limits hold, and every key that waits has its turn', async () => {
  await fc.assert(
    fc.asyncProperty(actions, async (given) => {
      const limits = { weight: 100, all: 4, perNamespace: 2, perSecond: 1000, burst: 50 }
      const { clock, turns, announced, take } = start(limits)
      const inProgress = new Map<string, number>()
      const waiting = new Map<string, number>()
      const tryTo = (key: string, weight: number) => {
        const isRunning = inProgress.has(key)
        if (take(key, weight)) {
          if (isRunning) throw new Error(`two writes of ${key} are in progress`)
          inProgress.set(key, weight)
          waiting.delete(key)
        } else waiting.set(key, weight)
      }
      const use = () => {
        for (const key of announced.splice(0)) if (waiting.has(key)) tryTo(key, waiting.get(key)!)
      }
      for (const { what, key, weight } of given) {
        if (what === 'take') tryTo(key, weight)
        if (what === 'end' && inProgress.delete(key)) turns.end(key)
        if (what === 'leave') {
          turns.leave(key)
          waiting.delete(key)
        }
        if (what === 'wait') await clock.advance(400)
        if (what === 'use') use()
        const weights = [...inProgress.values()]
        // As many more can be late.
        expect(weights.length).toBeLessThanOrEqual(8)
        expect(weights.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(200)
        const ofA = [...inProgress.keys()].filter((one) => one.startsWith('a'))
        expect(ofA.length).toBeLessThanOrEqual(4)
      }
      for (let round = 0; round < 100 && waiting.size > 0; round++) {
        for (const key of inProgress.keys()) turns.end(key)
        inProgress.clear()
        await clock.advance(100)
        use()
      }
      // A key whose turn has lapsed comes again by itself, as rounds do.
      for (const [key, weight] of waiting) tryTo(key, weight)
      for (let round = 0; round < 100 && waiting.size > 0; round++) {
        for (const key of inProgress.keys()) turns.end(key)
        inProgress.clear()
        await clock.advance(100)
        use()
      }
      expect([...waiting.keys()]).toEqual([])
    }),
    { numRuns: 60 },
  )
})

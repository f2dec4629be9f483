import { expect, test } from 'vitest'
import { createTurns } from './turns.ts'

/** Hands out turns one by one, and records the names of those that had theirs. */
function recorded() {
  const deferred: (() => void)[] = []
  const turns = createTurns((next) => void deferred.push(next))
  const handled: string[] = []
  return {
    handled,
    /** Arrives as `NAMESPACE/USER`, with a number. */
    arrive: (owner: string, isLate?: () => boolean): void => {
      const [namespace = '', username = '', number] = owner.split('/')
      const turn = turns.take({ namespace, username }, isLate)
      if (turn === undefined) handled.push(`${namespace}/${username}/${number}`)
      else void turn.then(() => handled.push(`${namespace}/${username}/${number}`))
    },
    goOn: async (): Promise<void> => {
      while (deferred.length > 0) {
        deferred.shift()?.()
        await Promise.resolve()
      }
    },
  }
}

test.each<[string, readonly string[], readonly string[]]>([
  ['alone is handled at once', ['a/jane/1'], ['a/jane/1']],
  [
    'of one user are handled in their order',
    ['a/jane/1', 'a/jane/2', 'a/jane/3'],
    ['a/jane/1', 'a/jane/2', 'a/jane/3'],
  ],
  [
    'of another user of the namespace wait for one request, not for all before them',
    ['a/mallory/1', 'a/mallory/2', 'a/mallory/3', 'a/jane/1'],
    ['a/mallory/1', 'a/jane/1', 'a/mallory/2', 'a/mallory/3'],
  ],
  [
    'of another namespace wait for one request, not for one of each user',
    ['a/mallory1/1', 'a/mallory2/1', 'a/mallory3/1', 'b/jane/1', 'a/mallory4/1'],
    ['a/mallory1/1', 'b/jane/1', 'a/mallory2/1', 'a/mallory3/1', 'a/mallory4/1'],
  ],
  [
    'of two users alternate',
    ['a/jane/1', 'a/jane/2', 'a/jane/3', 'a/joe/1', 'a/joe/2'],
    ['a/jane/1', 'a/joe/1', 'a/jane/2', 'a/joe/2', 'a/jane/3'],
  ],
])('requests %s', async (_, arriving, expected) => {
  const { arrive, goOn, handled } = recorded()
  for (const one of arriving) arrive(one)
  expect(handled).toEqual(expected.slice(0, 1))
  await goOn()
  expect(handled).toEqual(expected)
})

test('a user who was served before is behind one who was not, regardless of who arrived first', async () => {
  const { arrive, goOn, handled } = recorded()
  arrive('a/mallory/1')
  await goOn()
  arrive('a/joe/1')
  arrive('a/mallory/2')
  arrive('a/jane/1')
  await goOn()
  expect(handled).toEqual(['a/mallory/1', 'a/joe/1', 'a/jane/1', 'a/mallory/2'])
})

test('a request that is late when its turn comes is dropped', async () => {
  const { arrive, goOn, handled } = recorded()
  let isLate = false
  arrive('a/jane/1')
  arrive('a/jane/2', () => isLate)
  arrive('a/jane/3')
  isLate = true
  await goOn()
  expect(handled).toEqual(['a/jane/1', 'a/jane/3'])
})

test('after the last request the next one is handled at once', async () => {
  const { arrive, goOn, handled } = recorded()
  arrive('a/jane/1')
  await goOn()
  arrive('a/jane/2')
  expect(handled).toEqual(['a/jane/1', 'a/jane/2'])
})

test('lets requests that arrive while one is handled take part', async () => {
  const turns = createTurns()
  const handled: string[] = []
  const arrive = (namespace: string) => turns.take({ namespace, username: 'jane' })?.then(() => handled.push(namespace))
  expect(arrive('a')).toBeUndefined()
  const waiting = arrive('a')
  await new Promise<void>((resolve) => {
    setImmediate(() => {
      void arrive('b')?.then(() => resolve())
    })
  })
  await waiting
  expect(handled).toEqual(['a', 'b'])
})

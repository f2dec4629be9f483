import { expect, test } from 'vitest'
import { createTurns } from './turns.ts'

/** Hands out turns one by one, and records the names of those that had theirs. */
function recorded() {
  const deferred: (() => void)[] = []
  const turns = createTurns((next) => void deferred.push(next))
  const handled: string[] = []
  return {
    handled,
    /** Arrives as `TENANT/USER`, with a number. */
    arrive: (owner: string, isLate?: () => boolean): void => {
      const [tenant = '', username = '', number] = owner.split('/')
      const turn = turns.take({ tenant, username }, isLate)
      if (turn === undefined) handled.push(`${tenant}/${username}/${number}`)
      else void turn.then(() => handled.push(`${tenant}/${username}/${number}`))
    },
    goOnce: async (): Promise<void> => {
      deferred.shift()?.()
      await Promise.resolve()
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
    'of another user of the tenant wait for one request, not for all before them',
    ['a/mallory/1', 'a/mallory/2', 'a/mallory/3', 'a/jane/1'],
    ['a/mallory/1', 'a/jane/1', 'a/mallory/2', 'a/mallory/3'],
  ],
  [
    'of another tenant wait for one request, not for one of each user',
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

test('who was served less recently precedes, regardless of who arrived first', async () => {
  const { arrive, goOn, handled } = recorded()
  for (const name of ['a/jane/1', 'a/joe/1']) {
    arrive(name)
    await goOn()
  }
  arrive('a/mallory/1')
  arrive('a/mallory/2')
  arrive('a/joe/2')
  arrive('a/jane/2')
  await goOn()
  expect(handled.slice(2)).toEqual(['a/mallory/1', 'a/jane/2', 'a/joe/2', 'a/mallory/2'])
})

test.each([
  ['tenants', 'other/new/1', (count: number) => `invented${count}/mallory/1`],
  ['users of a tenant', 'victim/new/1', (count: number) => `victim/invented${count}/1`],
])('new %s without end delay others only by those that already wait', async (_, newcomer, inventedOf) => {
  const { arrive, goOnce, handled } = recorded()
  let count = 0
  const invent = () => arrive(inventedOf((count += 1)))
  arrive('victim/known/1')
  await goOnce()
  for (let before = 0; before < 3; before++) invent()
  arrive(newcomer)
  arrive('victim/known/2')
  for (let turn = 0; turn < 10; turn++) {
    invent()
    await goOnce()
  }
  const [, , ...afterwards] = handled
  const expected = ['victim/known/2', inventedOf(2), inventedOf(3), newcomer, inventedOf(4)]
  expect(afterwards.slice(0, 5)).toEqual(expected)
})

test('a new owner waits at most once for each that was served before it arrived', async () => {
  const { arrive, goOnce, handled } = recorded()
  for (const number of [1, 2, 3]) for (const tenant of ['a', 'b', 'c']) arrive(`${tenant}/jane/${number}`)
  await goOnce()
  arrive('new/joe/1')
  for (let turn = 0; turn < 4; turn++) await goOnce()
  expect(handled).toEqual(['a/jane/1', 'b/jane/1', 'c/jane/1', 'a/jane/2', 'new/joe/1', 'b/jane/2'])
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
  const arrive = (tenant: string) => turns.take({ tenant, username: 'jane' })?.then(() => handled.push(tenant))
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

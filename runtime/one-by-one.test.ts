import { expect, test } from 'vitest'
import { createOneByOne } from './one-by-one.ts'

test('the first in order is next, among equals the one that arrived first', async () => {
  const deferred: (() => void)[] = []
  const queue = createOneByOne<{ readonly size: number; readonly name: string }>({
    compare: (one, other) => one.size - other.size,
    defer: (next) => void deferred.push(next),
  })
  const done: string[] = []
  const arrive = (name: string, size: number): void => {
    const turn = queue.take({ name, size })
    if (turn === undefined) done.push(name)
    else void turn.then(() => done.push(name))
  }
  for (const [name, size] of [
    ['large', 9],
    ['larger', 99],
    ['small', 1],
    ['as small', 1],
  ] as const)
    arrive(name, size)
  expect(done).toEqual(['large'])
  while (deferred.length > 0) {
    deferred.shift()?.()
    await Promise.resolve()
    if (done.length === 2) arrive('smallest', 0)
  }
  expect(done).toEqual(['large', 'small', 'smallest', 'as small', 'larger'])
})

import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createPace, placesOfSlow } from './pace.ts'

test('a namespace is slow while a call takes long, and six times as long after it, whatever is fast meanwhile', async () => {
  const clock = fakeClock()
  const pace = createPace(clock, 500)
  const end = pace.begin('a')
  expect(pace.isSlow('a')).toBe(false)
  await clock.advance(501)
  expect([pace.isSlow('a'), pace.isSlow('b')]).toEqual([true, false])
  await clock.advance(499)
  end()
  end()
  for (let call = 0; call < 20; call++) pace.begin('a')()
  await clock.advance(5999)
  expect(pace.isSlow('a')).toBe(true)
  await clock.advance(1)
  expect(pace.isSlow('a')).toBe(false)
})

test('a call of any length makes a namespace slow for a minute, and none makes cluster-scoped objects slow', async () => {
  const clock = fakeClock()
  const pace = createPace(clock, 500)
  const ends = ['a', ''].map((namespace) => pace.begin(namespace))
  await clock.advance(30_000)
  for (const end of ends) end()
  expect(['a', ''].map((namespace) => pace.isSlow(namespace))).toEqual([true, false])
  await clock.advance(60_000)
  expect(pace.isSlow('a')).toBe(false)
})

test.each([
  [{ all: 1, perNamespace: 1 }, 1],
  [{ all: 2, perNamespace: 1 }, 1],
  [{ all: 4, perNamespace: 2 }, 3],
  [{ all: 4, perNamespace: 3 }, 3],
  [{ all: 8, perNamespace: 6 }, 6],
  [{ all: 256, perNamespace: 8 }, 192],
])('of places %j, namespaces that are slow have %i', (limits, places) => {
  expect(placesOfSlow(limits)).toBe(places)
})

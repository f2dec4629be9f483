import { expect, test, vi } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createPace, createPacedPlaces, placesOfSlow } from './pace.ts'

test('a namespace is slow while a call takes long, and sixty times as long after it, whatever is fast meanwhile', async () => {
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
  await clock.advance(59_999)
  expect(pace.isSlow('a')).toBe(true)
  await clock.advance(1)
  expect(pace.isSlow('a')).toBe(false)
})

test('a slow call does not shorten the time for which a slower one counts', async () => {
  const clock = fakeClock()
  const pace = createPace(clock, 500)
  const end = pace.begin('a')
  await clock.advance(5000)
  end()
  const next = pace.begin('a')
  await clock.advance(501)
  next()
  await clock.advance(290_000)
  expect(pace.isSlow('a')).toBe(true)
})

test('a call of any length makes a namespace slow for ten minutes, and none makes cluster-scoped objects slow', async () => {
  const clock = fakeClock()
  const pace = createPace(clock, 500)
  const ends = ['a', ''].map((namespace) => pace.begin(namespace))
  await clock.advance(30_000)
  for (const end of ends) end()
  expect(['a', ''].map((namespace) => pace.isSlow(namespace))).toEqual([true, false])
  await clock.advance(600_000)
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

const setUp = (limits: { readonly all: number; readonly perNamespace: number }) => {
  const clock = fakeClock()
  const wake = vi.fn<() => void>()
  const places = createPacedPlaces(limits, { slowMs: 500, clock, wake })
  /** As many as there are. */
  const takeAll = (namespace: string) => {
    const taken: (() => void)[] = []
    for (let leave = places.take(namespace); leave !== undefined; leave = places.take(namespace)) taken.push(leave)
    return taken
  }
  return { clock, wake, places, takeAll }
}

test('work that is late gives its place to others, as often as there are places', async () => {
  const { clock, wake, places, takeAll } = setUp({ all: 4, perNamespace: 3 })
  const first = takeAll('a')
  expect([first.length, places.isFull(), wake.mock.calls.length]).toEqual([4, true, 0])
  await clock.advance(500)
  expect([places.isFull(), wake.mock.calls.length]).toEqual([false, 4])
  const second = takeAll('b')
  await clock.advance(500)
  expect([second.length, takeAll('c').length]).toEqual([4, 0])
  for (const leave of [...first, ...second]) leave()
  for (const leave of first) leave()
  expect([takeAll('c').length, clock.pending()]).toEqual([4, 4])
})

test('of many places, the late work that gives up its own is limited', async () => {
  const { clock, takeAll } = setUp({ all: 256, perNamespace: 8 })
  expect(takeAll('a')).toHaveLength(256)
  await clock.advance(500)
  expect(takeAll('b')).toHaveLength(32)
})

test('namespaces that were slow leave a quarter, also while their work is late', async () => {
  const { clock, takeAll } = setUp({ all: 4, perNamespace: 2 })
  const first = takeAll('a')
  await clock.advance(1000)
  for (const leave of first) leave()
  expect(takeAll('a')).toHaveLength(3)
  await clock.advance(1000)
  expect([takeAll('a').length, takeAll('b').length]).toEqual([0, 4])
})

import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createPace } from './pace.ts'

test('a namespace is slow while a call takes long, and until some were fast', async () => {
  const clock = fakeClock()
  const pace = createPace(clock)
  const end = pace.begin('a')
  expect(pace.isSlow('a')).toBe(false)
  await clock.advance(501)
  expect([pace.isSlow('a'), pace.isSlow('b')]).toEqual([true, false])
  await clock.advance(9500)
  end()
  end()
  const slow: boolean[] = []
  for (let call = 0; call < 12; call++) {
    slow.push(pace.isSlow('a'))
    pace.begin('a')()
  }
  expect(slow).toEqual([...Array(11).fill(true), false])
})

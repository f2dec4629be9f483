import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { budgetMs, inTime, parseDuration } from './deadline.ts'

test.each<[string, number | undefined]>([
  ['5s', 5000],
  ['1m30s', 90_000],
  ['2.5s', 2500],
  ['150ms', 150],
  ['1h', 3_600_000],
  ['500000000ns', 500],
  ['5', undefined],
  ['', undefined],
  ['-5s', undefined],
  ['5s ', undefined],
  ['soon', undefined],
])('Go writes %j for %j ms', (text, ms) => expect(parseDuration(text)).toBe(ms))

test.each<[string, number]>([
  ['/mutate?timeout=5s', 4500],
  ['/mutate', 4500],
  ['/mutate?timeout=nonsense', 4500],
  ['/mutate?timeout=100ms', 80],
  ['/mutate?timeout=10ms', 0],
  ['/mutate?timeout=24h', 27_000],
])('%s leaves %j ms', (url, ms) => expect(budgetMs(url)).toBe(ms))

test('returns a result that is in time, and undefined for a late one', async () => {
  const clock = fakeClock()
  expect(await inTime(Promise.resolve('result'), 10, clock)).toBe('result')
  const never = inTime(new Promise<string>(() => {}), 10, clock)
  await clock.advance(10)
  expect(await never).toBe(undefined)
  await expect(inTime(Promise.reject(new Error('broken')), 10, clock)).rejects.toThrow('broken')
})

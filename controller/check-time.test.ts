import { expect, test } from 'vitest'
import { createCheckTime } from './check-time.ts'

function start() {
  const now = { cpuMs: 0, availableMs: 0 }
  const time = createCheckTime({ cpuMs: () => now.cpuMs, availableMs: () => now.availableMs })
  const check = (namespace: string, ms: number) =>
    time.measure(namespace, () => {
      now.cpuMs += ms
      return `took ${ms}`
    })
  return { now, time, check }
}

test('a namespace has a second of CPU time, then a quarter of the time; others have their own', () => {
  const { now, time, check } = start()
  expect(check('large', 1000)).toBe('took 1000')
  expect(time.waitMs('large')).toBe(0)
  check('large', 500)
  expect([time.waitMs('large'), time.waitMs('other')]).toEqual([2000, 0])
  now.availableMs += 1500
  expect(time.waitMs('large')).toBe(500)
  now.availableMs += 500
  expect(time.waitMs('large')).toBe(0)
})

test('a check that fails counts as well', () => {
  const { now, time } = start()
  const fail = () => {
    now.cpuMs += 1250
    throw new Error('the preset is invalid')
  }
  expect(() => time.measure('large', fail)).toThrow('the preset is invalid')
  expect(time.waitMs('large')).toBe(1000)
})

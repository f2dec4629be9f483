import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createCheckTime, createWaitingRoom } from './check-time.ts'

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

test('VMs of a namespace that has no time wait, and are released one at a time', async () => {
  const clock = fakeClock()
  let debtMs = 1000
  const released: string[] = []
  const waits = createWaitingRoom({ waitMs: (namespace) => (namespace === 'large' ? debtMs : 0) }, clock, (key) =>
    released.push(key),
  )
  expect(['a', 'b', 'c', 'b'].map((key) => waits('large', key))).toEqual([true, true, true, true])
  expect(waits('other', 'd')).toBe(false)
  await clock.advance(999)
  expect(released).toEqual([])
  debtMs = 0
  await clock.advance(1)
  expect(released).toEqual(['a'])
  debtMs = 400
  await clock.advance(10)
  expect(released).toEqual(['a'])
  debtMs = 0
  await clock.advance(400)
  expect(released).toEqual(['a', 'b'])
  await clock.advance(10)
  expect([released, waits('large', 'e')]).toEqual([['a', 'b', 'c'], false])
})

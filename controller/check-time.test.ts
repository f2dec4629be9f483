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

test('VMs of a namespace that has no time wait, and are released one at a time, in order', async () => {
  const clock = fakeClock()
  let debtMs = 1000
  const released: string[] = []
  const waitMs = (namespace: string) => (namespace === 'large' ? debtMs : 0)
  const room = createWaitingRoom({ waitMs }, clock, (key) => released.push(key))
  expect(['a', 'b', 'c', 'gone', 'd'].map((key) => room.enter('large', key))).toEqual([true, true, true, true, true])
  expect(room.enter('other', 'e')).toBe(false)
  await clock.advance(999)
  expect(released).toEqual([])
  debtMs = 0
  await clock.advance(1)
  expect(released).toEqual(['a'])
  room.leave('large', 'a')
  debtMs = 400
  await clock.advance(10)
  // It keeps its place.
  expect([room.enter('large', 'b'), released]).toEqual([true, ['a']])
  debtMs = 0
  await clock.advance(400)
  expect([room.enter('large', 'b'), released]).toEqual([false, ['a', 'b']])
  room.leave('large', 'b')
  await clock.advance(10)
  room.leave('large', 'c')
  await clock.advance(10)
  // Nobody lets it leave.
  expect(released).toEqual(['a', 'b', 'c', 'gone'])
  await clock.advance(20)
  expect(released).toEqual(['a', 'b', 'c', 'gone', 'd'])
})

import { expect, test } from 'vitest'
import { createGate, freeBytes } from './gate.ts'

test('admits no more requests than the limit; one that leaves twice counts once', () => {
  const gate = createGate({ requests: 2, bytes: 0 })
  const first = gate.enter()
  expect([gate.enter() !== undefined, gate.enter()]).toEqual([true, undefined])
  first?.leave()
  first?.leave()
  expect([gate.enter() !== undefined, gate.enter()]).toEqual([true, undefined])
})

test('bytes count when they are held: requests that only announce them block no others', () => {
  const gate = createGate({ requests: 256, bytes: 100 })
  for (let count = 0; count < 255; count++) gate.enter()
  expect(gate.enter()?.hold(freeBytes + 100)).toBe(true)
})

test('large bodies share the limit beyond 64 KiB, and never block small ones', () => {
  const gate = createGate({ requests: 9, bytes: 100 })
  const [large, larger, small] = [gate.enter(), gate.enter(), gate.enter()]
  expect([large?.hold(freeBytes), large?.hold(60), larger?.hold(freeBytes + 60)]).toEqual([true, true, false])
  expect([small?.hold(freeBytes), small?.hold(41), small?.hold(40)]).toEqual([true, false, true])
  large?.leave()
  expect(larger?.hold(freeBytes + 60)).toBe(true)
})

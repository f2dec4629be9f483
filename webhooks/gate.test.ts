import { expect, test } from 'vitest'
import { createGate } from './gate.ts'

test('so many requests and no more', () => {
  const gate = createGate({ requests: 2, bytes: 100 })
  const leave = gate.enter(10)
  expect([gate.enter(10) !== undefined, gate.enter(10) !== undefined, gate.inside]).toEqual([true, false, 2])
  leave?.()
  leave?.()
  expect([gate.inside, gate.enter(10) !== undefined, gate.enter(10) !== undefined]).toEqual([1, true, false])
})

test('so many bytes and no more, but one request always', () => {
  const gate = createGate({ requests: 9, bytes: 100 })
  const leave = gate.enter(150)
  expect([leave !== undefined, gate.enter(1) !== undefined]).toEqual([true, false])
  leave?.()
  expect([gate.enter(60) !== undefined, gate.enter(60) !== undefined, gate.enter(40) !== undefined]).toEqual([
    true,
    false,
    true,
  ])
})

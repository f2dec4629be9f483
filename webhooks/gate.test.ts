import { expect, test } from 'vitest'
import { createGate, freeBytes } from './gate.ts'

test('admits no more requests than the limit; one that leaves twice counts once', () => {
  const gate = createGate({ requests: 2, bytes: 0, responseBytes: 0 })
  const first = gate.enter()
  expect([gate.enter() !== undefined, gate.enter()]).toEqual([true, undefined])
  first?.leave()
  first?.leave()
  expect([gate.enter() !== undefined, gate.enter()]).toEqual([true, undefined])
})

test('a request that has lost its place holds nothing any more', () => {
  const gate = createGate({ requests: 9, bytes: 100, responseBytes: 0 })
  const [first, second] = [gate.enter(), gate.enter()]
  first?.leave()
  expect([first?.hold(freeBytes + 100), second?.hold(freeBytes + 100)]).toEqual([false, true])
})

test('a request that is over is not assigned any more', () => {
  const gate = createGate({ requests: 2, bytes: 0, responseBytes: 0 })
  for (let count = 0; count < 3; count++) {
    const pass = gate.enter()
    pass?.leave()
    pass?.assign('gone', () => {})
  }
  let isDisplaced = false
  gate.enter()?.assign('here', () => (isDisplaced = true))
  gate.enter()?.assign('here', () => (isDisplaced = true))
  expect(isDisplaced).toBe(false)
})

test('bytes count when they are held: requests that only announce them block no others', () => {
  const gate = createGate({ requests: 256, bytes: 100, responseBytes: 0 })
  for (let count = 0; count < 255; count++) gate.enter()
  expect(gate.enter()?.hold(freeBytes + 100)).toBe(true)
})

test('large bodies share the limit beyond 128 KiB, and never block small ones', () => {
  const gate = createGate({ requests: 9, bytes: 100, responseBytes: 0 })
  const [large, larger, small] = [gate.enter(), gate.enter(), gate.enter()]
  expect([large?.hold(freeBytes), large?.hold(60), larger?.hold(freeBytes + 60)]).toEqual([true, true, false])
  expect([small?.hold(freeBytes), small?.hold(41), small?.hold(40)]).toEqual([true, false, true])
  large?.leave()
  expect(larger?.hold(freeBytes + 60)).toBe(true)
})

test('of requests whose namespace is known, the namespace that holds the most loses its last one', () => {
  const gate = createGate({ requests: 8, bytes: 0, responseBytes: 0 })
  const displaced: string[] = []
  const arrive = (namespace: string, number: number) => {
    const pass = gate.enter()
    pass?.assign(namespace, () => displaced.push(`${namespace}${number}`))
    return pass
  }
  const passes = Array.from({ length: 7 }, (_, number) => arrive('busy', number))
  expect(displaced).toEqual(['busy6'])
  for (const number of [0, 1, 2]) arrive('calm', number)
  expect(displaced).toEqual(['busy6', 'busy5', 'busy4', 'busy3'])
  passes[0]?.leave()
  arrive('calm', 3)
  expect(displaced).toEqual(['busy6', 'busy5', 'busy4', 'busy3'])
})

test('a request that loses its place makes room for the bodies of others', () => {
  const gate = createGate({ requests: 8, bytes: 100, responseBytes: 0 })
  const displaced: string[] = []
  const arrive = (namespace: string, bytes: number) => {
    const pass = gate.enter()
    const isHeld = pass?.hold(freeBytes + bytes)
    pass?.assign(namespace, () => displaced.push(`${namespace} ${bytes}`))
    return isHeld
  }
  expect([arrive('busy', 40), arrive('busy', 35), arrive('busy', 25)]).toEqual([true, true, true])
  expect(displaced).toEqual(['busy 40'])
  expect([arrive('calm', 30), arrive('calm', 0)]).toEqual([true, true])
  expect(displaced).toEqual(['busy 40', 'busy 35'])
})

test('large responses share a limit, and never block small ones: the tenant with the most loses its largest', () => {
  const gate = createGate({ requests: 9, bytes: 0, responseBytes: 100 })
  const displaced: string[] = []
  const of = (tenant: string) => {
    const pass = gate.enter()
    pass?.assign(tenant, () => displaced.push(tenant))
    return pass
  }
  const [first, second, accomplice, calm, large] = ['busy', 'busy', 'accomplice', 'calm', 'calm'].map(of)
  // Nobody reads these.
  expect([first?.respond(freeBytes + 50), accomplice?.respond(freeBytes + 50)]).toEqual([true, true])
  expect([second?.respond(freeBytes), calm?.respond(freeBytes + 40), displaced]).toEqual([true, true, ['accomplice']])
  expect([second?.respond(freeBytes + 20), displaced]).toEqual([true, ['accomplice', 'busy']])
  expect([large?.respond(freeBytes + 101), displaced]).toEqual([false, ['accomplice', 'busy', 'calm']])
  calm?.leave()
  expect([second?.respond(freeBytes + 80), displaced]).toEqual([true, ['accomplice', 'busy', 'calm']])
})

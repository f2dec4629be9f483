import { describe, expect, test } from 'vitest'
import { createConnections } from './connections.ts'

const limits = { pending: 4, pendingPerAddress: 2, burst: 3, perSecond: 1, proven: 2 }
const accepted = { isAccepted: true }
const rejected = { isAccepted: false }

describe('pending connections', () => {
  test('of one address: the oldest is closed for the newest', () => {
    const connections = createConnections(limits)
    expect([1, 2, 3].map((n) => connections.arrive(`a${n}`, 'a', 0))).toEqual([
      accepted,
      accepted,
      { isAccepted: true, evicted: 'a1' },
    ])
  })

  test('of all addresses: the oldest is closed, whatever its address', () => {
    const connections = createConnections(limits)
    for (const address of ['a', 'b', 'c', 'd']) connections.arrive(address, address, 0)
    expect(connections.arrive('e', 'e', 0)).toEqual({ isAccepted: true, evicted: 'a' })
  })

  test('that are proven or gone do not count', () => {
    const connections = createConnections(limits)
    connections.arrive('a1', 'a', 0)
    connections.prove('a1')
    connections.arrive('a2', 'a', 0)
    connections.leave('a2')
    expect([3, 4].map((n) => connections.arrive(`a${n}`, 'a', 0))).toEqual([accepted, accepted])
  })
})

describe('the rate of new connections', () => {
  test('is limited for each address separately, and recovers with time', () => {
    const connections = createConnections(limits)
    const arrive = (address: string, nowMs: number) => {
      const arrival = connections.arrive(`${address} ${nowMs}`, address, nowMs)
      connections.leave(`${address} ${nowMs}`)
      return arrival.isAccepted
    }
    expect([1, 2, 3, 4].map((nowMs) => arrive('a', nowMs))).toEqual([true, true, true, false])
    expect([arrive('b', 5), arrive('a', 1003), arrive('a', 1004)]).toEqual([true, true, false])
    expect([1, 2, 3, 4].map((n) => arrive('a', 60_000 + n))).toEqual([true, true, true, false])
  })

  test('is not limited for an address with a proven client, and unchanged for others', () => {
    const connections = createConnections(limits)
    connections.arrive('first', 'api', 0)
    connections.prove('first')
    const all = Array.from({ length: 20 }, (_, n) => {
      const { isAccepted } = connections.arrive(`${n}`, 'api', 0)
      connections.leave(`${n}`)
      return isAccepted
    })
    expect([new Set(all), connections.arrive('x', 'x', 0)]).toEqual([new Set([true]), accepted])
  })

  test('the memory for ten thousand addresses is bounded', () => {
    const connections = createConnections({ ...limits, burst: 1 })
    for (let n = 0; n < 10_000; n++) connections.arrive(`${n}`, `${n}`, 0)
    // The first one was forgotten, the last one was not.
    expect([connections.arrive('again', '0', 0).isAccepted, connections.arrive('again', '9999', 0)]).toEqual([
      true,
      rejected,
    ])
  })
})

test('proven connections are limited', () => {
  const connections = createConnections(limits)
  for (const name of ['a', 'b']) {
    connections.arrive(name, 'api', 0)
    connections.prove(name)
  }
  expect(connections.arrive('c', 'api', 0)).toEqual(rejected)
  connections.leave('a')
  expect(connections.arrive('c', 'api', 0)).toEqual(accepted)
})

import { describe, expect, test } from 'vitest'
import { createConnections } from './connections.ts'

const limits = { pending: 4, pendingPerAddress: 2, burst: 3, perSecond: 1, proven: 2 }
const stopped = { monotonic: () => 0 }
const accepted = { isAccepted: true }
const rejected = { isAccepted: false }

describe('pending connections', () => {
  test('of one address: the oldest is closed for the newest', () => {
    const connections = createConnections(limits, stopped)
    expect([1, 2, 3].map((n) => connections.arrive(`a${n}`, 'a'))).toEqual([
      accepted,
      accepted,
      { isAccepted: true, evicted: 'a1' },
    ])
  })

  test('of all addresses: the oldest is closed, whatever its address', () => {
    const connections = createConnections(limits, stopped)
    for (const address of ['a', 'b', 'c', 'd']) connections.arrive(address, address)
    expect(connections.arrive('e', 'e')).toEqual({ isAccepted: true, evicted: 'a' })
  })

  test('of all addresses: the oldest one is closed of the address that has the most', () => {
    const connections = createConnections(limits, stopped)
    for (const name of ['a1', 'b1', 'b2', 'c1']) connections.arrive(name, name.charAt(0))
    expect(connections.arrive('d1', 'd')).toEqual({ isAccepted: true, evicted: 'b1' })
  })

  test('of an address with a proven client: none is closed until there are too many of all', () => {
    const connections = createConnections(limits, stopped)
    connections.arrive('first', 'api')
    connections.prove('first')
    expect([1, 2, 3].map((n) => connections.arrive(`api${n}`, 'api'))).toEqual([accepted, accepted, accepted])
    expect(connections.arrive('a1', 'a')).toEqual(accepted)
    expect(connections.arrive('api4', 'api')).toEqual({ isAccepted: true, evicted: 'api1' })
  })

  test('of an address with a proven client do not let strangers have more', () => {
    const connections = createConnections(limits, stopped)
    connections.arrive('first', 'api')
    connections.prove('first')
    for (const name of ['api1', 'a1', 'a2']) connections.arrive(name, name.slice(0, -1))
    expect(connections.arrive('a3', 'a')).toEqual({ isAccepted: true, evicted: 'a1' })
    expect(connections.arrive('api2', 'api')).toEqual(accepted)
    expect(connections.arrive('api3', 'api')).toEqual({ isAccepted: true, evicted: 'api1' })
  })

  test('that are proven or gone do not count', () => {
    const connections = createConnections(limits, stopped)
    connections.arrive('a1', 'a')
    connections.prove('a1')
    connections.arrive('a2', 'a')
    connections.leave('a2')
    expect([3, 4].map((n) => connections.arrive(`a${n}`, 'a'))).toEqual([accepted, accepted])
  })
})

describe('the rate of new connections', () => {
  test('is limited for each address with a proven client, if it is given', () => {
    let atMs = 0
    const most = { ...limits, pending: 9, known: { perSecond: 1, burst: 2 } }
    const connections = createConnections(most, { monotonic: () => atMs })
    for (const address of ['api', 'other']) {
      connections.arrive(address, address)
      connections.prove(address)
      connections.leave(address)
    }
    const arrive = (...names: string[]) => names.map((name) => connections.arrive(name, name.slice(0, -1)).isAccepted)
    expect(arrive('api1', 'api2', 'api3', 'other1')).toEqual([true, true, false, true])
    atMs = 1000
    expect(arrive('api4', 'api5')).toEqual([true, false])
  })

  test('is limited for each address separately, and recovers with time', () => {
    let atMs = 0
    const connections = createConnections(limits, { monotonic: () => atMs })
    const arrive = (address: string, nowMs: number) => {
      atMs = nowMs
      const arrival = connections.arrive(`${address} ${nowMs}`, address)
      connections.leave(`${address} ${nowMs}`)
      return arrival.isAccepted
    }
    expect([1, 2, 3, 4].map((nowMs) => arrive('a', nowMs))).toEqual([true, true, true, false])
    expect([arrive('b', 5), arrive('a', 1003), arrive('a', 1004)]).toEqual([true, true, false])
    expect([1, 2, 3, 4].map((n) => arrive('a', 60_000 + n))).toEqual([true, true, true, false])
  })

  test('is not limited for an address with a proven client, and unchanged for others', () => {
    const connections = createConnections(limits, stopped)
    connections.arrive('first', 'api')
    connections.prove('first')
    const all = Array.from({ length: 20 }, (_, n) => {
      const { isAccepted } = connections.arrive(`${n}`, 'api')
      connections.leave(`${n}`)
      return isAccepted
    })
    expect([new Set(all), connections.arrive('x', 'x')]).toEqual([new Set([true]), accepted])
  })

  test('the memory for ten thousand addresses is bounded', () => {
    const connections = createConnections({ ...limits, burst: 1 }, stopped)
    for (let n = 0; n < 10_000; n++) connections.arrive(`${n}`, `${n}`)
    // The first one was forgotten, the last one was not.
    expect([connections.arrive('again', '0').isAccepted, connections.arrive('again', '9999')]).toEqual([true, rejected])
  })
})

test('proven connections are limited', () => {
  const connections = createConnections(limits, stopped)
  for (const name of ['a', 'b']) {
    connections.arrive(name, 'api')
    connections.prove(name)
  }
  expect(connections.arrive('c', 'api')).toEqual(rejected)
  connections.leave('a')
  expect(connections.arrive('c', 'api')).toEqual(accepted)
})

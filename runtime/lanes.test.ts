import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createLanes } from './lanes.ts'

/** Work that is named `NAMESPACE` and a number, and ends when `end` is called. */
function setUp(limits = { all: 3, perNamespace: 2 }) {
  const clock = fakeClock()
  const lanes = createLanes(limits, clock)
  const started: string[] = []
  const ends = new Map<string, PromiseWithResolvers<string>>()
  return {
    clock,
    started,
    run: (name: string, signal?: AbortSignal) => {
      const end = Promise.withResolvers<string>()
      ends.set(name, end)
      const work = () => {
        started.push(name)
        return end.promise
      }
      return lanes.run(name.slice(0, 1), work, signal)
    },
    end: async (name: string) => {
      ends.get(name)?.resolve(name)
      await new Promise(setImmediate)
    },
  }
}
const settled = () => new Promise(setImmediate)

test('a namespace has its share of the lanes, and all of them together have the rest', async () => {
  const { run, started } = setUp()
  for (const name of ['a1', 'a2', 'a3', 'b1', 'c1']) void run(name)
  await settled()
  expect(started).toEqual(['a1', 'a2', 'b1'])
})

test('namespaces take turns for a lane that is free again', async () => {
  const { run, end, started } = setUp()
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']) void run(name)
  await settled()
  for (const name of ['a1', 'a2', 'b1', 'a3']) await end(name)
  expect(started).toEqual(['a1', 'a2', 'b1', 'a3', 'b2', 'c1', 'a4'])
})

test('returns the result, and a failure frees the lane as well', async () => {
  const lanes = createLanes({ all: 1, perNamespace: 1 })
  const failed = lanes.run('a', () => Promise.reject(new Error('away'))).catch(String)
  expect([await failed, await lanes.run('a', async () => 'done')]).toEqual(['Error: away', 'done'])
})

test('work that is aborted while it waits never starts', async () => {
  const { run, end, started } = setUp({ all: 1, perNamespace: 1 })
  const client = new AbortController()
  void run('a1')
  const aborted = run('a2', client.signal).catch(String)
  void run('a3')
  client.abort(new Error('gone'))
  expect(await aborted).toBe('Error: gone')
  await end('a1')
  expect([started, await run('a4', client.signal).catch(String)]).toEqual([['a1', 'a3'], 'Error: gone'])
})

test('namespaces whose work is slow leave a quarter of the lanes, each within its own share', async () => {
  const { clock, run, end, started } = setUp({ all: 4, perNamespace: 3 })
  for (const name of ['a1', 'b1']) void run(name)
  await settled()
  await clock.advance(1000)
  for (const name of ['a2', 'b2']) void run(name)
  await settled()
  for (const name of ['a1', 'b1']) await end(name)
  for (const name of ['a3', 'a4', 'b3', 'c1']) void run(name)
  await settled()
  expect(started.slice(4)).toEqual(['a3', 'c1'])
  await end('c1')
  expect(started.length).toBe(6)
  await end('a2')
  expect(started.length).toBe(7)
})

test('a namespace at its limit does not get more lanes by being slow', async () => {
  const { clock, run, started } = setUp({ all: 4, perNamespace: 2 })
  for (const name of ['a1', 'a2', 'a3']) void run(name)
  await settled()
  await clock.advance(1000)
  void run('b1')
  await settled()
  expect(started).toEqual(['a1', 'a2', 'b1'])
})

import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createWriteTurns } from './write-turns.ts'

function start(inProgress = Infinity) {
  const clock = fakeClock()
  const turns = createWriteTurns({ perSecond: 100, burst: 200, inProgress }, clock)
  const stop = new AbortController()
  const begun: string[] = []
  const ends: (() => void)[] = []
  const write = async (namespace: string, weight: number, name: string) => {
    const outcome = await turns.take(namespace, weight, stop.signal).then(
      (end) => {
        ends.push(end)
        return name
      },
      (error: Error) => `${name} ${error.message}`,
    )
    begun.push(outcome)
  }
  return { clock, stop, begun, ends, write }
}

test('writes begin at the rate after a burst, and namespaces take turns', async () => {
  const { clock, begun, write } = start()
  for (const name of ['a1', 'a2', 'a3', 'a4']) void write('a', 150, name)
  void write('b', 10, 'b1')
  await clock.advance(0)
  expect(begun).toEqual(['a1', 'a2'])
  await clock.advance(999)
  expect(begun).toEqual(['a1', 'a2'])
  await clock.advance(1)
  expect(begun).toEqual(['a1', 'a2', 'b1'])
  await clock.advance(100)
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3'])
  await clock.advance(1500)
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3', 'a4'])
})

test('a namespace with few writes does not wait for all of those with many', async () => {
  const { clock, begun, write } = start()
  for (const name of ['a', 'b', 'c']) for (const number of [1, 2, 3]) void write(name, 300, `${name}${number}`)
  await clock.advance(1000)
  const before = begun.length
  void write('small', 10, 'small')
  await clock.advance(3000)
  expect(begun[before]).toBe('small')
})

test('as many writes are in progress as fit, or one', async () => {
  const { clock, begun, ends, write } = start(50)
  for (const [name, weight] of [
    ['a1', 20],
    ['a2', 30],
    ['a3', 60],
    ['a4', 10],
  ] as const) {
    void write('a', weight, name)
  }
  await clock.advance(0)
  expect(begun).toEqual(['a1', 'a2'])
  void write('b', 40, 'b1')
  ends[0]!()
  ends[0]!()
  await clock.advance(0)
  expect(begun).toEqual(['a1', 'a2'])
  ends[1]!()
  await clock.advance(0)
  expect(begun).toEqual(['a1', 'a2', 'b1'])
  ends[2]!()
  await clock.advance(0)
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3'])
  await clock.advance(60_000)
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3'])
  ends[3]!()
  await clock.advance(0)
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3', 'a4'])
})

test('writes that wait do not begin once the process stops', async () => {
  const { clock, stop, begun, write } = start()
  for (const name of ['a1', 'a2']) void write('a', 300, name)
  await clock.advance(0)
  stop.abort(new Error('stopped'))
  void write('b', 1, 'b1')
  await clock.advance(5000)
  expect(begun).toEqual(['a1', 'a2 stopped', 'b1 stopped'])
})

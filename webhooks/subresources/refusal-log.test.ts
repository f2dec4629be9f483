import { expect, test } from 'vitest'
import { fakeClock } from '../../test/fake-clock.ts'
import { createRefusalLog } from './refusal-log.ts'

function start() {
  const clock = fakeClock()
  const lines: unknown[] = []
  const logRefusal = createRefusalLog({ info: (line: unknown) => void lines.push(line) }, clock)
  const refuse = (username: string, times: number) => {
    for (let time = 0; time < times; time++) logRefusal({ username, groups: [] }, { user: username })
    return lines.splice(0)
  }
  return { clock, refuse }
}

test('of a user who is refused without end, few refusals are logged, and the others are counted', async () => {
  const { clock, refuse } = start()
  expect(refuse('jane', 1000)).toEqual(Array(16).fill({ user: 'jane' }))
  await clock.advance(10_000)
  expect(refuse('jane', 1000)).toEqual([{ user: 'jane', omitted: 984 }])
  await clock.advance(20_000)
  expect(refuse('jane', 2)).toEqual([{ user: 'jane', omitted: 999 }, { user: 'jane' }])
})

test('refusals of other users are logged; the service accounts of a namespace count as one', () => {
  const { refuse } = start()
  refuse('system:serviceaccount:a:1', 1000)
  expect(refuse('system:serviceaccount:a:2', 1)).toEqual([])
  expect(refuse('system:serviceaccount:b:1', 1)).toHaveLength(1)
  expect(refuse('jane', 1)).toEqual([{ user: 'jane' }])
})

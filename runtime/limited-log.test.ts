import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createLimitedLog } from './limited-log.ts'
import { createLogger } from './log.ts'

function start() {
  const clock = fakeClock()
  const lines: unknown[] = []
  const write = (line: string) => {
    const { time: _, process: __, ...rest } = JSON.parse(line)
    lines.push(rest)
  }
  const limited = createLimitedLog(createLogger({ process: 'test', to: { write } }), clock)
  const cause = (tenant: string, times: number) => {
    for (let time = 0; time < times; time++) limited(tenant, { tenant }, 'refused')
    return lines.splice(0)
  }
  return { clock, limited, cause, lines }
}

const line = { level: 'info', tenant: 'jane', msg: 'refused' }

test('of a tenant that causes lines without end, few are logged, and the others are counted', async () => {
  const { clock, cause } = start()
  expect(cause('jane', 1000)).toEqual(Array(16).fill(line))
  await clock.advance(10_000)
  expect(cause('jane', 1000)).toEqual([{ ...line, omitted: 984 }])
  await clock.advance(20_000)
  expect(cause('jane', 2)).toEqual([{ ...line, omitted: 999 }, line])
})

test('lines of other tenants are logged', () => {
  const { cause } = start()
  cause('john', 1000)
  expect(cause('jane', 1)).toEqual([line])
})

test('all levels of a tenant have one limit', () => {
  const { cause, limited, lines } = start()
  limited('jane', {}, 'failed', 'warn')
  expect(lines).toEqual([{ level: 'warn', msg: 'failed' }])
  expect(cause('jane', 1000)).toHaveLength(16)
})

import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createLimitedLog } from './limited-log.ts'

function start() {
  const clock = fakeClock()
  const lines: unknown[] = []
  const to = (level: string) => (line: object, message: string) => void lines.push({ level, ...line, message })
  const limited = createLimitedLog({ info: to('info'), warn: to('warn'), error: to('error') }, clock)
  const cause = (tenant: string, times: number) => {
    for (let time = 0; time < times; time++) limited(tenant, { tenant }, 'refused')
    return lines.splice(0)
  }
  return { clock, limited, cause, lines }
}

const line = { level: 'info', tenant: 'jane', message: 'refused' }

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
  expect(lines).toEqual([{ level: 'warn', message: 'failed' }])
  expect(cause('jane', 1000)).toHaveLength(16)
})

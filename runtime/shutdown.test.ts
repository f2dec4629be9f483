import { describe, expect, it } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createLogger } from './log.ts'
import { createShutdown } from './shutdown.ts'

const log = createLogger({ process: 'test', level: 'silent' })

function setUp() {
  const clock = fakeClock()
  const steps: string[] = []
  const listeners = new Map<string, () => void>()
  const source = { on: (signal: string, listener: () => void) => listeners.set(signal, listener) }
  const shutdown = createShutdown({ source, log, clock, timeoutMs: 1000, exit: (code) => steps.push(`exit ${code}`) })
  return { clock, steps, shutdown, signal: (name: string) => listeners.get(name)?.() }
}

describe('shutdown', () => {
  it('runs the steps one after the other on SIGTERM, and exits 0', async () => {
    const { clock, steps, shutdown, signal } = setUp()
    const first = Promise.withResolvers<void>()
    shutdown.step('first', async () => {
      steps.push('first')
      await first.promise
    })
    shutdown.step('second', () => void steps.push('second'))
    expect(shutdown.signal.aborted).toBe(false)
    signal('SIGTERM')
    expect(shutdown.signal.aborted).toBe(true)
    await clock.advance(10)
    expect(steps).toEqual(['first'])
    first.resolve()
    await clock.advance(10)
    expect(steps).toEqual(['first', 'second', 'exit 0'])
  })

  it('continues when a step fails', async () => {
    const { clock, steps, shutdown } = setUp()
    shutdown.step('bad', () => Promise.reject(new Error('no')))
    shutdown.step('good', () => void steps.push('good'))
    shutdown.begin('test')
    await clock.advance(0)
    expect(steps).toEqual(['good', 'exit 0'])
  })

  it('exits 1 when the steps take too long, and at once on a second signal', async () => {
    const { clock, steps, shutdown, signal } = setUp()
    shutdown.step('endless', () => new Promise(() => {}))
    signal('SIGINT')
    await clock.advance(999)
    expect(steps).toEqual([])
    signal('SIGTERM')
    expect(steps).toEqual(['exit 1'])
    await clock.advance(1)
    expect(steps).toEqual(['exit 1', 'exit 1'])
  })

  it('exits 1 after a failure', async () => {
    const { clock, steps, shutdown } = setUp()
    shutdown.fail('the caches are lost')
    shutdown.begin('again')
    await clock.advance(0)
    expect(steps).toEqual(['exit 1'])
  })

  it('exits 1 at once, without a step, when it is abandoned, also during a shutdown', async () => {
    const { clock, steps, shutdown, signal } = setUp()
    const requests = Promise.withResolvers<void>()
    shutdown.step('requests in progress', () => requests.promise)
    shutdown.abandon('the lease is lost')
    expect(steps).toEqual(['exit 1'])
    signal('SIGTERM')
    await clock.advance(0)
    shutdown.abandon('the lease is lost')
    expect(steps).toEqual(['exit 1', 'exit 1'])
    requests.resolve()
  })
})

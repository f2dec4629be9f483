import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { Counter, Registry } from 'prom-client'
import { afterEach, describe, expect, it } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { systemClock } from './clock.ts'
import { startHealth } from './health.ts'
import type { Health, HealthOptions } from './health.ts'
import { createLogger } from './log.ts'

const opened: Health[] = []
afterEach(async () => {
  for (const health of opened.splice(0)) await health.close()
})

async function setUp(over: Partial<HealthOptions> = {}) {
  const registry = new Registry()
  const log = createLogger({ process: 'test', level: 'silent' })
  const health = await startHealth({
    port: 0,
    host: '127.0.0.1',
    registry,
    log,
    clock: systemClock,
    unready: () => [],
    ...over,
  })
  opened.push(health)
  const ask = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`http://127.0.0.1:${health.port}${path}`, init)
    return `${response.status} ${await response.text()}`
  }
  return { ask, registry, log, port: health.port }
}

describe('health server', () => {
  it.each([
    ['/livez', 'GET', '200 ok\n'],
    ['/readyz?verbose', 'GET', '200 ok\n'],
    ['/readyz', 'POST', '405 method not allowed\n'],
    ['/other', 'GET', '404 not found\n'],
  ])('%s %s is %s', async (path, method, answer) => {
    const { ask } = await setUp()
    expect(await ask(path, { method })).toBe(answer)
  })

  it('reports why it is not ready, and stays alive', async () => {
    const { ask } = await setUp({ unready: () => ['no cache', 'no certificate'] })
    expect(await ask('/readyz')).toBe('503 no cache\nno certificate\n')
    expect(await ask('/livez')).toBe('200 ok\n')
  })

  it('responds with 500 when a check throws', async () => {
    const unready = () => {
      throw new Error('no')
    }
    const { ask } = await setUp({ unready })
    expect(await ask('/readyz')).toBe('500 internal error\n')
  })

  it('serves metrics', async () => {
    const { ask, registry } = await setUp()
    new Counter({ name: 'requests', help: 'Requests', registers: [registry] }).inc(3)
    expect(await ask('/metrics')).toContain('\nrequests 3\n')
  })

  it('changes the level of the log while it runs', async () => {
    const { ask, log } = await setUp()
    expect(await ask('/log-level')).toBe('200 silent\n')
    expect(await ask('/log-level', { method: 'PUT', body: 'debug' })).toBe('200 debug\n')
    expect(log.level).toBe('debug')
    expect(await ask('/log-level', { method: 'PUT', body: 'loud' })).toMatch(/^400 must be one of: trace/)
    expect(await ask('/log-level', { method: 'PUT', body: 'x'.repeat(1000) })).toMatch(/^400/)
    expect(await ask('/log-level', { method: 'DELETE' })).toBe('405 method not allowed\n')
    expect(log.level).toBe('debug')
  })

  it('throws when the port is taken', async () => {
    const { port } = await startHealth({
      port: 0,
      clock: systemClock,
      registry: new Registry(),
      log: createLogger({ process: 'test', level: 'silent' }),
      unready: () => [],
    }).then((health) => (opened.push(health), health))
    await expect(setUp({ port, host: '0.0.0.0' })).rejects.toThrow('EADDRINUSE')
  })

  it('responds to probes while another address opens as many connections as it can', async () => {
    const { ask, port, clock } = await setUpOnFakeClock()
    const closed: number[] = []
    for (let n = 0; n < 100; n++) {
      const socket = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' })
      socket.on('error', () => {}).once('close', () => closed.push(n))
    }
    // 32 at once: the others are closed.
    await until(() => closed.length === 68)
    expect(await ask('/livez')).toBe('200 ok\n')
    // The others send nothing for 10 s.
    await until(
      () => closed.length === 100,
      () => clock.advance(1000),
    )
  })

  it('responds to one request per connection', async () => {
    const { port } = await setUpOnFakeClock()
    const socket = connect({ port, host: '127.0.0.1' })
    socket.write('GET /livez HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(50))
    const received = await text(socket)
    expect(received.match(/200 OK/g)).toHaveLength(1)
  })

  it.each([
    ['with an expectation that Node refuses itself', 'GET / HTTP/1.1\r\nhost:\r\nexpect: x\r\n\r\n'],
    ['with one that Node meets itself', 'GET / HTTP/1.1\r\nhost:\r\nexpect: 100-continue\r\n\r\n'],
    ['of HTTP/1.0', 'GET /livez HTTP/1.0\r\nconnection: keep-alive\r\n\r\n'],
    ['with a body', 'POST / HTTP/1.1\r\nhost:\r\ncontent-length: 1\r\n\r\nx'],
  ])('closes the connection of many requests %s', async (_, request) => {
    const { port } = await setUpOnFakeClock()
    const socket = connect({ port, host: '127.0.0.1' }).on('error', () => {})
    const closed = new Promise((resolve) => socket.once('close', resolve))
    let responses = 0
    socket.on('data', (chunk) => (responses += String(chunk).split('HTTP/1.1 ').length - 1))
    socket.write(request.repeat(5000))
    await closed
    expect(responses).toBeLessThan(130)
  })
})

async function setUpOnFakeClock() {
  const clock = fakeClock()
  return { ...(await setUp({ clock })), clock }
}

import { EventEmitter } from 'node:events'
import { Server, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { fakeClock, type FakeClock } from '../test/fake-clock.ts'
import { calmMs, createVersions } from './versions.ts'

const known = '10.0.0.1'
const connectionOf = (remoteAddress: string) => Object.assign(new EventEmitter(), { remoteAddress })

/** Versions of a server that has so many connections of a known address. */
const versionsWith = (connections: number, clock?: FakeClock) => {
  const versions = createVersions(2, clock)
  const server = new Server()
  versions.watch(server, (address) => address === known)
  const sockets = Array.from({ length: connections }, () => connectionOf(known))
  for (const socket of sockets) server.emit('connection', socket)
  return { versions, sockets, server }
}
const both = { protocols: ['h2', 'http/1.1'] }

describe('a client that speaks both versions', () => {
  test.each([
    [2, 'http/1.1'],
    [3, 'h2'],
  ])('with %i connections of the server speaks %s', (connections, expected) => {
    expect(versionsWith(connections).versions.choose(both)).toBe(expected)
  })

  test('speaks HTTP/1.1 again after connections were closed', () => {
    const { versions, sockets } = versionsWith(3)
    sockets[0]?.emit('close')
    expect(versions.choose(both)).toBe('http/1.1')
  })

  test('speaks HTTP/1.1 although strangers have many connections', () => {
    const { versions, server } = versionsWith(2)
    for (let count = 0; count < 3; count++) server.emit('connection', connectionOf('10.0.0.2'))
    expect(versions.choose(both)).toBe('http/1.1')
  })

  test('speaks HTTP/1.1 while the server drains', () => {
    const { versions } = versionsWith(3)
    versions.leaveHttp2()
    expect(versions.choose(both)).toBe('http/1.1')
  })
})

describe('sessions of HTTP/2', () => {
  class Session extends EventEmitter {
    isClosed = false
    setLocalWindowSize() {}
    close() {
      this.isClosed = true
    }
  }
  const busy = (clock = fakeClock()) => {
    const { versions, sockets, server } = versionsWith(3, clock)
    const session = new Session()
    server.emit('session', session)
    return { versions, sockets, server, session, clock }
  }

  test('end half a minute after there are fewer connections, and new ones are of HTTP/1.1', async () => {
    const { versions, sockets, session, clock } = busy()
    await clock.advance(calmMs)
    sockets[0]?.emit('close')
    await clock.advance(calmMs - 1)
    expect(session.isClosed).toBe(false)
    await clock.advance(1)
    expect([session.isClosed, versions.choose(both)]).toEqual([true, 'http/1.1'])
  })

  test('go on while they have many requests in flight, although the connections are few', async () => {
    const { sockets, session, clock } = busy()
    const streams = Array.from({ length: 3 }, () => new EventEmitter())
    for (const stream of streams) session.emit('stream', stream)
    session.emit('stream', { destroyed: true })
    for (const socket of sockets) socket.emit('close')
    await clock.advance(2 * calmMs)
    expect(session.isClosed).toBe(false)
    streams[0]?.emit('close')
    await clock.advance(calmMs)
    expect(session.isClosed).toBe(true)
  })

  test('that have ended are not waited for', async () => {
    const { sockets, session, clock } = busy()
    sockets[0]?.emit('close')
    expect(clock.pending()).toBe(1)
    session.emit('close')
    expect(clock.pending()).toBe(0)
  })

  test('go on if there are many again', async () => {
    const { sockets, server, session, clock } = busy()
    sockets[0]?.emit('close')
    await clock.advance(calmMs - 1)
    server.emit('connection', connectionOf(known))
    await clock.advance(calmMs)
    expect(session.isClosed).toBe(false)
  })

  test('end although as many users have sessions of their own', async () => {
    const { versions, sockets, session, clock } = busy()
    versions.discount(sockets[0] as unknown as Socket)
    await clock.advance(calmMs)
    expect(session.isClosed).toBe(true)
  })
})

test.each([
  [1, 'h2'],
  [3, 'http/1.1'],
  [3, 'http/1.0'],
])('with %i connections, a client that speaks only %s does', (connections, protocol) => {
  const expected = protocol === 'http/1.0' ? undefined : protocol
  expect(versionsWith(connections).versions.choose({ protocols: [protocol] })).toBe(expected)
})

import { beforeEach, describe, expect, test } from 'vitest'
import { type FakeClock, fakeClock, settle } from '../../test/fake-clock.ts'
import { type FakeLibvirtd, fakeLibvirtd } from '../../test/fake-libvirtd.ts'
import { ConnectionLost, DeadlineExceeded, LibvirtError } from './errors.ts'
import { Session } from './session.ts'

let fake: FakeLibvirtd
let clock: FakeClock
let dials: number[]
let connected: number
let session: Session

beforeEach(() => {
  fake = fakeLibvirtd()
  clock = fakeClock()
  dials = []
  connected = 0
  session = new Session({
    uri: 'qemu:///session',
    clock,
    dial: () => {
      dials.push(clock.monotonic())
      return fake.dial()
    },
    onConnected: () => (connected += 1),
    prepare: async (connection) => {
      await connection.call('connect_domain_event_callback_register_any', { event_id: 0, dom: null })
    },
  })
})

const getVersion = (deadlineMs?: number) => session.call('connect_get_lib_version', {}, deadlineMs)
const version = { lib_ver: 11_003_000n }

/** The error of a promise. Allows it to reject while the test awaits something else. */
const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

describe('a session', () => {
  test('authenticates, opens and prepares before anything else is called', async () => {
    session.start()
    expect(await getVersion()).toEqual(version)
    expect(fake.calls).toEqual([
      'auth_list',
      'connect_open',
      'connect_domain_event_callback_register_any',
      'connect_get_lib_version',
    ])
    expect(connected).toBe(1)
  })

  test('whose daemon does not run yet retries after 50 ms, doubled up to 2 s', async () => {
    fake.restart(8)
    session.start()
    await clock.advance(20_000)
    expect(dials).toEqual([0, 50, 150, 350, 750, 1550, 3150, 5150, 7150])
    expect(connected).toBe(1)
  })

  test('that lost its connection opens another, prepares it and starts over at 50 ms', async () => {
    session.start()
    await settle()
    fake.restart(1)
    await clock.advance(150)
    expect(dials).toEqual([0, 50, 150])
    expect(connected).toBe(2)
    expect(fake.calls.filter((name) => name.startsWith('connect_domain_event'))).toHaveLength(2)
  })

  test.each(['auth_list', 'connect_open', 'connect_domain_event_callback_register_any'])(
    'of which %s is refused tries again',
    async (procedure) => {
      fake.refuseNext(procedure, new LibvirtError('not now', 38, 7))
      session.start()
      await clock.advance(50)
      expect(connected).toBe(1)
      expect(dials).toEqual([0, 50])
    },
  )

  test('whose daemon falls silent closes the connection and connects to the next daemon', async () => {
    session.start()
    await settle()
    fake.mute()
    await clock.advance(25_000)
    fake.restart()
    await clock.advance(25_000)
    expect(connected).toBe(2)
  })
})

describe('a call', () => {
  test('waits for a connection', async () => {
    fake.restart(2)
    session.start()
    const call = getVersion()
    await clock.advance(150)
    expect(await call).toEqual(version)
  })

  test('waits no longer than its deadline', async () => {
    fake.restart(Infinity)
    session.start()
    const refused = rejection(getVersion(1000))
    await clock.advance(1000)
    const error = await refused
    expect(error).toBeInstanceOf(DeadlineExceeded)
    expect(error).toMatchObject({ cause: { message: 'connect ECONNREFUSED' } })
  })

  test('that lost its connection fails and is not repeated', async () => {
    session.start()
    await settle()
    fake.mute()
    const lost = rejection(getVersion())
    await settle()
    fake.restart()
    expect(await lost).toBeInstanceOf(ConnectionLost)
    await clock.advance(1000)
    expect(fake.calls).not.toContain('connect_get_lib_version')
  })

  test('on a closed session fails at once, as does one that waits', async () => {
    fake.restart(Infinity)
    session.start()
    const waiting = rejection(getVersion())
    await settle()
    session.close()
    expect(await waiting).toBeInstanceOf(ConnectionLost)
    await expect(getVersion()).rejects.toBeInstanceOf(ConnectionLost)
    await clock.advance(60_000)
    expect(clock.pending()).toBe(0)
  })
})

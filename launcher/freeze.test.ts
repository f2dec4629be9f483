import { afterEach, beforeEach, expect, test } from 'vitest'
import { createLogger } from '../runtime/log.ts'
import { type FakeClock, fakeClock, settle } from '../test/fake-clock.ts'
import { type FakeLibvirtd, fakeLibvirtd } from '../test/fake-libvirtd.ts'
import { GuestFreeze } from './freeze.ts'
import { Client } from './libvirt/client.ts'
import { type DomainRef, defineDomain, startDomain } from './libvirt/domain.ts'
import { LibvirtError } from './libvirt/errors.ts'
import { freezeGuest, thawGuest } from './libvirt/freeze.ts'

let fake: FakeLibvirtd
let clock: FakeClock
let client: Client
let guest: GuestFreeze
let dom: DomainRef

beforeEach(async () => {
  fake = fakeLibvirtd()
  clock = fakeClock()
  client = new Client({ dial: () => fake.dial(), uri: 'qemu:///session', clock, onHint: () => {} })
  client.start()
  guest = new GuestFreeze({
    freeze: (of) => client.apart((connection) => freezeGuest(connection, of)),
    thaw: (of) => client.apart((connection) => thawGuest(connection, of)),
    clock,
    log: createLogger({ process: 'launcher', level: 'silent' }),
    onChange: () => {},
  })
  dom = await defineDomain(client, '<domain><name>testvm</name></domain>')
  await startDomain(client, dom)
})

afterEach(() => client.close())

async function freeze(id: string): Promise<void> {
  guest.freeze(dom, id)
  await settle()
}

async function thaw(id: string): Promise<void> {
  guest.thaw(id)
  await settle()
}

const callsOf = (name: string) => fake.calls.filter((call) => call === name).length
const refusal = new LibvirtError('Guest agent is not responding', 86, 10)
const state = () => guest.report.frozen?.state

test('a guest that was never asked reports nothing', () => {
  expect([guest.report, guest.isActive]).toEqual([{}, false])
})

test('a guest is frozen until it is asked to thaw', async () => {
  await freeze('one')
  expect([guest.report, guest.isActive]).toEqual([{ frozen: { id: 'one', state: 'Frozen' } }, true])
  await thaw('one')
  expect([guest.report, guest.isActive]).toEqual([{ frozen: { id: 'one', state: 'Thawed' } }, false])
})

test('each request is served once', async () => {
  await freeze('one')
  await thaw('one')
  await freeze('one')
  expect([state(), callsOf('domain_fsfreeze')]).toEqual(['Thawed', 1])
})

test('a request to thaw is ignored if another request froze the guest', async () => {
  await freeze('one')
  await thaw('two')
  expect(state()).toBe('Frozen')
})

test('a request to thaw that comes before the guest is frozen thaws it then', async () => {
  guest.freeze(dom, 'one')
  guest.thaw('one')
  await settle()
  expect([state(), callsOf('domain_fsfreeze'), callsOf('domain_fsthaw')]).toEqual(['Thawed', 1, 1])
})

test('a guest is thawed after 30 s, and the request has expired', async () => {
  await freeze('one')
  await clock.advance(29_999)
  expect(state()).toBe('Frozen')
  await clock.advance(1)
  expect([state(), guest.report.frozen?.message]).toEqual([
    'Expired',
    'the file systems were thawed after 30 s, or because the guest was shut down',
  ])
  await thaw('one')
  expect([state(), callsOf('domain_fsthaw')]).toEqual(['Expired', 1])
})

test.each([
  ['all', 0],
  ['some', 1],
])(
  'a guest that has thawed %s of its file systems by itself was not frozen until the request to thaw',
  async (_, left) => {
    await freeze('one')
    fake.thawGuests(left)
    await thaw('one')
    expect([state(), guest.report.frozen?.message]).toEqual([
      'Expired',
      'the guest thawed its file systems before the snapshot was complete',
    ])
  },
)

test('a guest that is shut down is thawed first', async () => {
  await freeze('one')
  guest.end()
  await settle()
  expect([state(), callsOf('domain_fsthaw')]).toEqual(['Expired', 1])
})

test('a guest that could not be frozen is thawed, in case it is frozen later', async () => {
  fake.refuseNext('domain_fsfreeze', refusal)
  await freeze('one')
  expect([guest.report, callsOf('domain_fsthaw')]).toEqual([
    { frozen: { id: 'one', state: 'Failed', message: 'Guest agent is not responding' } },
    1,
  ])
  await freeze('two')
  expect(state()).toBe('Frozen')
})

test('a guest whose agent freezes it late is thawed once the agent answers', async () => {
  fake.refuseNext('domain_fsfreeze', refusal)
  fake.refuseNext('domain_fsthaw', refusal)
  await freeze('one')
  expect([state(), callsOf('domain_fsthaw')]).toEqual(['Failed', 1])
  await clock.advance(60_000)
  expect(callsOf('domain_fsthaw')).toBe(2)
})

test('a guest that another request has frozen is not thawed for one that failed', async () => {
  fake.refuseNext('domain_fsfreeze', refusal)
  fake.refuseNext('domain_fsthaw', refusal)
  await freeze('one')
  await freeze('two')
  await clock.advance(20_000)
  await thaw('two')
  expect([state(), callsOf('domain_fsthaw')]).toEqual(['Thawed', 2])
})

test('thawing is repeated until it succeeds, less and less often', async () => {
  await freeze('one')
  fake.refuseNext('domain_fsthaw', refusal)
  await thaw('one')
  expect([guest.report.frozen, guest.isActive]).toEqual([
    {
      id: 'one',
      state: 'Thawing',
      message: 'the guest cannot be thawed yet, which is tried again: Guest agent is not responding',
    },
    true,
  ])
  fake.refuseNext('domain_fsthaw', refusal)
  await clock.advance(1000)
  await clock.advance(1000)
  expect([state(), callsOf('domain_fsthaw')]).toEqual(['Thawing', 2])
  await clock.advance(1000)
  expect([guest.report.frozen, callsOf('domain_fsthaw')]).toEqual([{ id: 'one', state: 'Thawed' }, 3])
})

test('a guest is thawed after 30 s although libvirtd is killed meanwhile, and back only later', async () => {
  await freeze('one')
  fake.restart(1000)
  await clock.advance(30_000)
  expect([state(), guest.report.frozen?.message]).toEqual([
    'Thawing',
    expect.stringContaining('the guest cannot be thawed yet, which is tried again: '),
  ])
  fake.restart()
  for (let seconds = 0; seconds < 20; seconds++) await clock.advance(1000)
  expect([state(), callsOf('domain_fsthaw')]).toEqual(['Expired', 1])
})

test.each(['domain_fsfreeze', 'domain_fsthaw'])(
  'libvirtd is killed before it answers %s: the guest thaws',
  async (call) => {
    fake.breakAfterNext(call)
    await freeze('one')
    await thaw('one')
    for (let seconds = 0; seconds < 5; seconds++) await clock.advance(1000)
    // It may not have been frozen until the request to thaw.
    expect([state(), guest.isActive]).toEqual([call === 'domain_fsfreeze' ? 'Failed' : 'Expired', false])
    await freeze('two')
    await thaw('two')
    expect(state()).toBe('Thawed')
  },
)

test('another request ends the one before, and is served when it is repeated', async () => {
  await freeze('one')
  await freeze('two')
  expect(guest.report.frozen).toMatchObject({ id: 'one', state: 'Expired' })
  await freeze('two')
  expect(guest.report.frozen).toEqual({ id: 'two', state: 'Frozen' })
})

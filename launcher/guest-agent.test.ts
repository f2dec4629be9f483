import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createLogger } from '../runtime/log.ts'
import { type FakeClock, fakeClock, settle } from '../test/fake-clock.ts'
import { type FakeLibvirtd, fakeLibvirtd } from '../test/fake-libvirtd.ts'
import { GuestAgent, isAgentOpen, withoutChannelStates } from './guest-agent.ts'
import { Client } from './libvirt/client.ts'
import { type DomainRef, defineDomain, readState, startDomain } from './libvirt/domain.ts'
import { LibvirtError } from './libvirt/errors.ts'
import { askAgent } from './libvirt/guest-info.ts'

const mac = '52:54:00:aa:bb:01'
const os = 2
const hostname = 8

let fake: FakeLibvirtd
let clock: FakeClock
let client: Client
let agent: GuestAgent
let dom: DomainRef
let changes: number
let address: string
let isFrozen: boolean

/** What libvirt 11.3 sends for the agent of a Linux guest. */
function linux(types: number): { field: string; value: number | string }[] {
  if (types === hostname) return [{ field: 'hostname', value: 'linux' }]
  if (types === os) {
    return [
      { field: 'os.id', value: 'debian' },
      { field: 'os.name', value: 'Debian GNU/Linux' },
      { field: 'os.pretty-name', value: 'Debian GNU/Linux 13 (trixie)' },
      { field: 'os.version-id', value: '13' },
      { field: 'os.kernel-release', value: '6.12.48' },
    ]
  }
  return [
    { field: 'if.count', value: 2 },
    { field: 'if.0.name', value: 'lo' },
    { field: 'if.0.hwaddr', value: '00:00:00:00:00:00' },
    { field: 'if.0.addr.count', value: 1 },
    { field: 'if.0.addr.0.addr', value: '127.0.0.1' },
    { field: 'if.1.name', value: 'eth0' },
    { field: 'if.1.hwaddr', value: mac },
    { field: 'if.1.addr.count', value: 1 },
    { field: 'if.1.addr.0.type', value: 'ipv4' },
    { field: 'if.1.addr.0.addr', value: address },
    { field: 'if.1.addr.0.prefix', value: 24 },
  ]
}

const debian = { id: 'debian', name: 'Debian GNU/Linux 13 (trixie)', version: '13', kernel: '6.12.48' }
const connected = (ip = '10.0.0.7') => ({
  agent: 'connected',
  guest: { hostname: 'linux', os: debian, interfaces: [{ mac, ips: [ip] }] },
})
const questions = () => fake.calls.filter((call) => call === 'domain_get_guest_info').length

beforeEach(async () => {
  fake = fakeLibvirtd()
  clock = fakeClock()
  changes = 0
  isFrozen = false
  address = '10.0.0.7'
  fake.answerAgents(linux)
  client = new Client({ dial: () => fake.dial(), uri: 'qemu:///session', clock, onHint: () => {} })
  client.start()
  agent = new GuestAgent({
    ask: (of, asked) => client.apart((connection) => askAgent(connection, of, asked)),
    isFrozen: () => isFrozen,
    clock,
    log: createLogger({ process: 'launcher', level: 'silent' }),
    random: () => 0.5,
    onChange: () => (changes += 1),
  })
  dom = await defineDomain(client, '<domain><name>testvm</name></domain>')
  await startDomain(client, dom)
})

afterEach(() => client.close())

async function connect(): Promise<void> {
  agent.observe(dom, true)
  await settle()
}

test('a guest without a channel has no agent', async () => {
  agent.observe(dom, undefined)
  await settle()
  expect([agent.report, questions()]).toEqual([{}, 0])
})

test('a channel that the guest has not opened is not asked', async () => {
  agent.observe(dom, false)
  await settle()
  expect([agent.report, questions()]).toEqual([{ agent: 'disconnected' }, 0])
})

test('an agent that was connected may return for five minutes', async () => {
  const seen: [string, boolean][] = []
  const note = (when: string) => seen.push([when, agent.mayReturn])
  agent.observe(dom, false)
  await clock.advance(10_000)
  note('it was never connected')
  await connect()
  note('connected')
  await clock.advance(10_000)
  agent.observe(dom, false)
  note('disconnected')
  await clock.advance(299_000)
  note('almost 5 minutes later')
  await clock.advance(1000)
  note('5 minutes later')
  await connect()
  await clock.advance(10_000)
  agent.observe(dom, undefined)
  note('libvirt does not say, a moment after it was connected again')
  await clock.advance(10_000)
  await connect()
  note('connected for the third time')
  expect(seen).toEqual([
    ['it was never connected', false],
    ['connected', false],
    ['disconnected', true],
    ['almost 5 minutes later', true],
    ['5 minutes later', false],
    ['libvirt does not say, a moment after it was connected again', true],
    ['connected for the third time', false],
  ])
})

test('everything is read when the agent connects, and the report changes once', async () => {
  await connect()
  expect([agent.report, questions(), changes]).toEqual([connected(), 3, 1])
})

test('an hour takes 72 requests and no change of the report', async () => {
  await connect()
  for (let minute = 0; minute < 60; minute += 1) {
    await clock.advance(60_000)
    await settle()
  }
  expect([questions() - 3, changes]).toEqual([72, 1])
})

test('another address changes the report within a minute', async () => {
  await connect()
  address = '10.0.0.8'
  await clock.advance(60_000)
  await settle()
  expect([agent.report, changes]).toEqual([connected('10.0.0.8'), 2])
})

test('an agent that disconnects leaves nothing, and is read again when it connects', async () => {
  await connect()
  await clock.advance(10_000)
  agent.observe(dom, false)
  await settle()
  expect(agent.report).toEqual({ agent: 'disconnected' })
  await clock.advance(10_000)
  await connect()
  expect([agent.report, questions()]).toEqual([connected(), 6])
})

describe('a hostile guest', () => {
  test('that opens and closes its channel all the time changes the report every 10 s', async () => {
    for (let round = 0; round < 1000; round += 1) agent.observe(dom, round % 2 === 0)
    await settle()
    const before = changes
    for (let tenth = 0; tenth < 600; tenth += 1) {
      agent.observe(dom, tenth % 3 === 0)
      await clock.advance(100)
      await settle()
    }
    expect(changes - before).toBeLessThanOrEqual(12)
    expect(questions()).toBeLessThanOrEqual(21)
  })

  test('that answers nothing is unresponsive after 20 s, and holds up no other call', async () => {
    fake.answerAgents(undefined)
    await connect()
    expect(agent.report).toEqual({ agent: 'connected' })
    expect(await readState(client, dom)).toMatchObject({ state: 'running' })
    await clock.advance(20_000)
    await settle()
    expect([agent.report, changes]).toEqual([{ agent: 'unresponsive' }, 1])
    fake.answerAgents(linux)
    await clock.advance(60_000)
    await settle()
    expect(agent.report.agent).toBe('connected')
  })

  test('whose agent libvirt gives up on is unresponsive', async () => {
    fake.refuseNext('domain_get_guest_info', new LibvirtError('Guest agent is not responding', 86, 10))
    await connect()
    expect([agent.report, questions()]).toEqual([{ agent: 'unresponsive' }, 1])
  })

  test('whose agent does not support a question is asked the others', async () => {
    fake.refuseNext('domain_get_guest_info', new LibvirtError('unsupported', 74, 10))
    await connect()
    const { hostname: _hostname, ...rest } = connected().guest
    expect(agent.report).toEqual({ agent: 'connected', guest: rest })
  })

  test.each<[string, { field: string; value: number | string }[]]>([
    ['texts of 4 MB', [{ field: 'hostname', value: 'a'.repeat(4e6) }]],
    ['four billion interfaces', [{ field: 'if.count', value: 2 ** 32 - 1 }]],
    ['texts for numbers', [{ field: 'if.count', value: 'many' }]],
    ['numbers for texts', [{ field: 'hostname', value: 7 }]],
    [
      'more fields than libvirt sends',
      Array.from({ length: 2048 }, (_, index) => ({ field: `a${index}`, value: 'b' })),
    ],
  ])('that reports %s is bounded', async (_, params) => {
    fake.answerAgents(() => params)
    await connect()
    expect(agent.report.agent).toBe('connected')
    expect(JSON.stringify(agent.report).length).toBeLessThan(400)
    expect(await readState(client, dom)).toMatchObject({ state: 'running' })
  })
})

test('libvirt reports the state of channels with the domain, which is left out of the report', () => {
  const withState = (state: object) => ({
    devices: {
      channels: [
        { type: 'pty', target: { type: 'virtio', name: 'other', ...state } },
        { type: 'unix', target: { type: 'virtio', name: 'org.qemu.guest_agent.0', ...state } },
      ],
    },
  })
  expect(isAgentOpen(withState({ state: 'connected' }))).toBe(true)
  expect(isAgentOpen(withState({ state: 'disconnected' }))).toBe(false)
  expect(isAgentOpen(withState({}))).toBe(false)
  expect(isAgentOpen({ devices: {} })).toBe(undefined)
  expect(isAgentOpen(undefined)).toBe(undefined)
  expect(withoutChannelStates(withState({ state: 'connected' }))).toEqual(withState({}))
})

test('a frozen guest is not asked, and keeps what it reported', async () => {
  await connect()
  const before = questions()
  isFrozen = true
  await clock.advance(120_000)
  expect([agent.report, questions()]).toEqual([connected(), before])
  isFrozen = false
  address = '10.0.0.8'
  await clock.advance(10_000)
  expect(agent.report).toEqual(connected('10.0.0.8'))
})

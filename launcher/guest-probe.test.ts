import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Probes } from '../api/probe.ts'
import { type FakeClock, fakeClock, settle } from '../test/fake-clock.ts'
import { type FakeLibvirtd, fakeLibvirtd } from '../test/fake-libvirtd.ts'
import { createGuestProbes, type ProbeResult } from './guest-probe.ts'
import { Client } from './libvirt/client.ts'
import { type DomainRef, defineDomain, startDomain } from './libvirt/domain.ts'
import { LibvirtError } from './libvirt/errors.ts'

let fake: FakeLibvirtd
let clock: FakeClock
let client: Client
let probes: Probes | undefined
let dom: DomainRef | undefined
let isFrozen: boolean
/** Commands that were started; the id of the process is the number of the command. */
let started: unknown[]
/** What the agent replies about a process; undefined: nothing, ever. */
let status: (pid: unknown) => unknown

const base64 = (text: string) => Buffer.from(text).toString('base64')
const running = { exited: false }
const ended = (exitcode: number, more: object = {}) => ({ exited: true, exitcode, ...more })
const refusal = (message: string, code = 1) => new LibvirtError(message, code, 10)

beforeEach(async () => {
  fake = fakeLibvirtd()
  clock = fakeClock()
  client = new Client({ dial: () => fake.dial(), uri: 'qemu:///session', clock, onHint: () => {} })
  client.start()
  dom = await defineDomain(client, '<domain><name>testvm</name></domain>')
  await startDomain(client, dom)
  probes = { readinessProbe: { exec: { command: ['/bin/test', '-f', '/ready'] }, timeoutSeconds: 3 } }
  isFrozen = false
  started = []
  status = () => ended(0)
  fake.runInGuests((command, args) => {
    if (command === 'guest-exec-status') return status(args['pid'])
    return { pid: started.push(args) }
  })
  probe = createGuestProbes({
    client,
    readProbes: () => probes,
    readDomain: () => dom,
    isFrozen: () => isFrozen,
    clock,
  })
})

afterEach(() => client.close())

let probe: ReturnType<typeof createGuestProbes>

/** The result after this time, or that there is none yet. */
async function probed(afterMs = 0): Promise<ProbeResult | 'waiting'> {
  let result: ProbeResult | 'waiting' = 'waiting'
  void probe('readinessProbe').then((one) => (result = one))
  for (let turn = 0; turn < 5; turn++) await settle()
  await clock.advance(afterMs)
  return result
}

const success = { isSuccess: true, message: '' }
const failure = (message: string) => ({ isSuccess: false, message })

test('a command that exits with 0 succeeds, without a shell', async () => {
  expect(await probed()).toEqual(success)
  expect(started).toEqual([{ path: '/bin/test', arg: ['-f', '/ready'], 'capture-output': true }])
})

test('a command that runs for a time is waited for', async () => {
  status = () => running
  expect(await probed(1000)).toBe('waiting')
  status = () => ended(0, { 'out-data': base64('served\n') })
  await clock.advance(1000)
  expect(await probed()).toEqual({ isSuccess: true, message: 'served' })
})

test.each<[string, object, string]>([
  ['its errors', ended(3, { 'out-data': base64('a'), 'err-data': base64('no\n') }), 'exited with status 3: no'],
  ['its output, without errors', ended(1, { 'out-data': base64('down') }), 'exited with status 1: down'],
  ['nothing', ended(1), 'exited with status 1, and wrote nothing'],
  ['a signal', { exited: true, signal: 9 }, 'was ended by signal 9, and wrote nothing'],
  ['no status at all', { exited: true }, 'exited with status undefined, and wrote nothing'],
  [
    'output that is no text',
    ended(1, { 'out-data': 7, 'err-data': '\u001b' }),
    'exited with status 1, and wrote nothing',
  ],
  [
    'control characters',
    ended(1, { 'err-data': base64('\u001b[2Ja\u202eb') }),
    'exited with status 1: \uFFFD[2Ja\uFFFDb',
  ],
])('a command that fails is reported with %s', async (_, end, message) => {
  status = () => end
  expect(await probed()).toEqual(failure(`the command ${message}`))
})

test('a long output is cut', async () => {
  status = () => ended(1, { 'err-data': base64('x'.repeat(1_000_000)) })
  const result = await probed()
  expect(result).toEqual(failure(`the command exited with status 1: ${'x'.repeat(511)}…`))
})

test('a reply of more values than the launcher has memory for is refused', async () => {
  status = () => ended(0, { values: Array.from({ length: 1001 }, () => ({})) })
  const message: unknown = expect.stringContaining('guest-exec-status has more than 1000 values')
  expect(await probed()).toEqual({ isSuccess: false, message })
})

test('a command that hangs is started once, until it has ended', async () => {
  status = () => running
  expect(await probed(3000)).toEqual(
    failure('the command did not end within 3 s and continues in the guest as process 1'),
  )
  await clock.advance(7000)
  expect(await probed()).toEqual(
    failure('the command of an earlier probe still runs in the guest, as process 1 for 10 s'),
  )
  expect(started).toHaveLength(1)
  status = () => ended(0)
  expect([await probed(), started.length]).toEqual([success, 2])
})

test('an agent that was restarted does not know a process of before', async () => {
  status = () => running
  await probed(3000)
  status = (pid) => (pid === 1 ? refusal("Invalid parameter 'pid'") : ended(0))
  expect([await probed(), started.length]).toEqual([success, 2])
})

test.each<[string, () => unknown, string]>([
  [
    'is absent',
    () => refusal('Guest agent is not responding: QEMU guest agent is not connected', 86),
    'the QEMU guest agent does not answer: is it installed in the guest, and does it run? (Guest agent is not responding: QEMU guest agent is not connected)',
  ],
  [
    'refuses',
    () => refusal('guest-exec has been disabled'),
    'the QEMU guest agent refuses: guest-exec has been disabled',
  ],
  ['returns no process', () => ({ pid: 'x' }), 'the QEMU guest agent refuses: the agent returned no process id'],
  ['answers nonsense', () => [], 'the QEMU guest agent refuses: the reply to guest-exec makes no sense'],
])('an agent that %s is reported', async (_, reply, message) => {
  fake.runInGuests(reply)
  expect(await probed()).toEqual(failure(message))
})

test('the end of a command that wrote more than libvirt reads is a failure, and forgotten', async () => {
  status = () => refusal('Unable to encode message payload', 39)
  const result = failure(
    'the QEMU guest agent refuses: cannot read how the command ended, which can have written too much: Unable to encode message payload',
  )
  expect([await probed(), await probed(), started.length]).toEqual([result, result, 2])
})

test('an agent that does not answer fails the probe in time, and is asked by one probe at once', async () => {
  fake.runInGuests(() => undefined)
  const late = failure('the QEMU guest agent did not answer within 3 s')
  expect([await probed(3499), await probed(3500)]).toEqual(['waiting', late])
  expect(fake.calls.filter((call) => call === 'qemu_domain_agent_command')).toHaveLength(1)
  await clock.advance(20_000)
  fake.runInGuests((command) => (command === 'guest-exec' ? { pid: 1 } : ended(0)))
  expect(await probed()).toEqual(success)
})

test('while the guest is frozen, the last result holds', async () => {
  isFrozen = true
  expect(await probed()).toEqual(failure('the file systems of the guest are frozen'))
  isFrozen = false
  expect(await probed()).toEqual(success)
  isFrozen = true
  expect([await probed(), started.length]).toEqual([success, 1])
})

test('a guest that is frozen while its command runs keeps its last result', async () => {
  await probed()
  status = () => running
  void probed()
  await settle()
  isFrozen = true
  status = () => refusal('guest-exec-status has been disabled: the command is not allowed')
  await clock.advance(3000)
  expect(await probed()).toEqual(success)
})

test('before the guest runs, the probe fails', async () => {
  dom = undefined
  expect(await probed()).toEqual(failure('the guest does not run yet'))
  probes = undefined
  expect(await probed()).toEqual(failure('the launcher has not received its VM yet'))
})

test('a probe without a command is refused', async () => {
  await expect(probe('livenessProbe')).rejects.toMatchObject({
    name: 'Refused',
    message: 'the VM has no livenessProbe with a command',
  })
})

import { type Duplex, duplexPair } from 'node:stream'
import fc from 'fast-check'
import { beforeEach, describe, expect, test } from 'vitest'
import { type FakeClock, fakeClock, settle } from '../../test/fake-clock.ts'
import { encodeError } from '../../test/fake-libvirtd.ts'
import { Connection, type LibvirtEvent } from './connection.ts'
import { ConnectionLost, DeadlineExceeded, LibvirtError } from './errors.ts'
import { type Packet, encodePacket, packetReader, packetStatus, packetType } from './packet.ts'
import { encodeFields, keepalive, procedure, program, qemuProgram, structs, version } from './protocol.ts'
import type { CallStream } from './stream.ts'
import { encode } from './xdr.ts'

/** The daemon's end, played by the test packet by packet. */
let theirs: Duplex
/** What arrived, except PINGs. */
let received: Packet[]
let pings: number
let clock: FakeClock
let events: LibvirtEvent[]
let closed: Error[]
let connection: Connection

beforeEach(() => {
  const [ours, other] = duplexPair()
  theirs = other
  received = []
  pings = 0
  events = []
  closed = []
  clock = fakeClock()
  const read = packetReader()
  theirs.on('data', (chunk: Buffer) => {
    for (const packet of read(chunk)) {
      if (packet.program === keepalive.program && packet.procedure === keepalive.ping) pings += 1
      else received.push(packet)
    }
  })
  connection = new Connection(ours, {
    clock,
    onEvent: (event) => events.push(event),
    onClose: (reason) => closed.push(reason),
  })
})

function send(packet: Partial<Packet>): void {
  theirs.write(encodePacket({ ...reply, ...packet }))
}

const dom = { name: 'vm', uuid: new Uint8Array(16), id: 1 }
const state = procedure('domain_get_state')
const reply = {
  program,
  version,
  procedure: state.number,
  type: packetType.reply as number,
  serial: 1,
  status: packetStatus.ok as number,
  payload: new Uint8Array(),
}
const running = encodeFields(state.ret, { state: 1, reason: 1 })

const readState = (deadlineMs?: number) => connection.call('domain_get_state', { dom, flags: 0 }, deadlineMs)

/** The outcome of a promise; undefined while it is pending. */
function watch(promise: Promise<unknown>): { outcome: unknown } {
  const watched: { outcome: unknown } = { outcome: undefined }
  promise.then(
    (value) => (watched.outcome = value),
    (error: unknown) => (watched.outcome = error),
  )
  return watched
}

describe('a call', () => {
  test('is sent whole and resolves with the reply of its serial', async () => {
    const call = watch(readState())
    await settle()
    expect(received).toEqual([
      { ...reply, type: packetType.call, payload: encodeFields(state.args, { dom, flags: 0 }) },
    ])
    send({ payload: running })
    await settle()
    expect(call.outcome).toEqual({ state: 1, reason: 1 })
    expect(clock.pending()).toBe(1) // the next ping
  })

  test('of QEMU alone has a program of its own', async () => {
    const asked = { dom, cmd: '{}', timeout: 5, flags: 0 }
    const call = watch(connection.call('qemu_domain_agent_command', asked))
    await settle()
    expect(received).toMatchObject([{ program: qemuProgram, procedure: 3, type: packetType.call }])
    const payload = encodeFields(procedure('qemu_domain_agent_command').ret, { result: '{"return":{}}' })
    send({ program: qemuProgram, procedure: 3, payload })
    await settle()
    expect(call.outcome).toEqual({ result: '{"return":{}}' })
  })

  test('can have its reply after a later call', async () => {
    const [first, second] = [watch(readState()), watch(readState())]
    send({ serial: 2, payload: encodeFields(state.ret, { state: 5, reason: 2 }) })
    await settle()
    expect([first.outcome, second.outcome]).toEqual([undefined, { state: 5, reason: 2 }])
    send({ serial: 1, payload: running })
    await settle()
    expect(first.outcome).toEqual({ state: 1, reason: 1 })
  })

  test('that libvirt refuses rejects with its number and words', async () => {
    const call = watch(readState())
    send({ status: packetStatus.error, payload: encodeError(new LibvirtError('Domain not found', 42, 10)) })
    await settle()
    expect(call.outcome).toBeInstanceOf(LibvirtError)
    expect(call.outcome).toMatchObject({ message: 'Domain not found', code: 42, domain: 10 })
  })

  test('whose argument does not fit rejects, and nothing is sent', async () => {
    const call = watch(connection.call('domain_get_state', { dom, flags: -1 }))
    await settle()
    expect(String(call.outcome)).toBe('ProtocolError: flags is not of type uint')
    expect(received).toEqual([])
  })

  test('without a reply in time rejects, and a late reply is ignored', async () => {
    const call = watch(readState(3000))
    await clock.advance(2999)
    expect(call.outcome).toBe(undefined)
    await clock.advance(1)
    expect(call.outcome).toBeInstanceOf(DeadlineExceeded)
    send({ payload: running })
    const next = watch(readState())
    send({ serial: 2, payload: running })
    await settle()
    expect(next.outcome).toEqual({ state: 1, reason: 1 })
  })
})

describe('at most four calls are in progress', () => {
  test('the fifth waits for a reply, and its deadline runs meanwhile', async () => {
    const calls = Array.from({ length: 6 }, () => watch(readState(1000)))
    await settle()
    expect(received.map(({ serial }) => serial)).toEqual([1, 2, 3, 4])
    send({ serial: 3, payload: running })
    await settle()
    expect(received.map(({ serial }) => serial)).toEqual([1, 2, 3, 4, 5])
    await clock.advance(1000)
    expect(calls[5]?.outcome).toBeInstanceOf(DeadlineExceeded)
    // The daemon still works on the four: nothing more is sent until it answers.
    const late = watch(readState(9000))
    await settle()
    expect(received).toHaveLength(5)
    send({ serial: 1, payload: running })
    await settle()
    expect(received.map(({ serial }) => serial)).toEqual([1, 2, 3, 4, 5, 7])
    expect(late.outcome).toBe(undefined)
  })
})

describe('an event', () => {
  const lifecycle = (serial: number, detail: number) =>
    send({
      procedure: 318,
      type: packetType.message,
      serial,
      payload: encode(
        { callback_id: 'int', msg: 'domain_event_lifecycle_msg' },
        { callback_id: 0, msg: { dom, event: 2, detail } },
        structs,
      ),
    })

  test('with the serial of a call is not its reply', async () => {
    const call = watch(readState())
    lifecycle(1, 0)
    await settle()
    expect(call.outcome).toBe(undefined)
    expect(events).toMatchObject([{ name: 'lifecycle', message: { msg: { event: 2, detail: 0 } } }])
  })

  test('of an unregistered kind is ignored', async () => {
    send({ procedure: 320, type: packetType.message, payload: Buffer.from('what?') })
    lifecycle(1, 1)
    await settle()
    expect(events).toHaveLength(1)
    expect(closed).toEqual([])
  })

  test('that does not decode ends the connection', async () => {
    send({ procedure: 318, type: packetType.message, payload: Buffer.alloc(4) })
    await settle()
    expect(closed[0]?.cause).toMatchObject({ name: 'ProtocolError' })
  })
})

describe('invalid bytes end the connection and reject every call', () => {
  test.each([
    ['an impossible length', () => theirs.write(Buffer.from('00000003', 'hex'))],
    ['a reply without a call', () => send({ serial: 99, payload: running })],
    ['an answer to another procedure', () => send({ procedure: 14, payload: running })],
    ['an answer to the procedure of the same number for QEMU', () => send({ program: qemuProgram, payload: running })],
    ['an answer that is too short', () => send({ payload: Buffer.alloc(4) })],
    ['an answer that is too long', () => send({ payload: Buffer.alloc(12) })],
    ['an error that does not decode', () => send({ status: packetStatus.error, payload: Buffer.alloc(8) })],
  ])('%s', async (_, misbehave) => {
    const [sent, waiting] = [watch(readState()), watch(Promise.all(Array.from({ length: 5 }, () => readState())))]
    misbehave()
    await settle()
    expect(sent.outcome).toBeInstanceOf(ConnectionLost)
    expect(waiting.outcome).toBeInstanceOf(ConnectionLost)
    expect(closed).toMatchObject([{ name: 'ConnectionLost', cause: { name: 'ProtocolError' } }])
    expect(clock.pending()).toBe(0)
    await expect(readState()).rejects.toBeInstanceOf(ConnectionLost)
  })

  test.each([
    ['of another program', { program: 42 }],
    ['of an event of QEMU', { program: qemuProgram, type: packetType.message, procedure: 6 }],
    ['of a type that is not for clients', { type: packetType.call }],
    ['for a stream that is over', { type: packetType.stream, serial: 77 }],
  ])('but a packet %s is passed over', async (_, packet) => {
    send(packet)
    await settle()
    expect(closed).toEqual([])
  })
})

test('with any bytes from the daemon, each call resolves, rejects or waits, and nothing crashes', async () => {
  const packet = fc.record({
    program: fc.constantFrom(program, qemuProgram, keepalive.program, 7),
    version: fc.constant(1),
    procedure: fc.constantFrom(state.number, 201, 318, 1, 2, 99),
    type: fc.constantFrom(0, 1, 2, 3, 4, 5, 6, 9),
    serial: fc.integer({ min: 0, max: 3 }),
    status: fc.constantFrom(0, 1, 2, 9),
    payload: fc.oneof(fc.uint8Array({ maxLength: 80 }), fc.constant(new Uint8Array(running))),
  })
  const bytes = fc.oneof(packet.map(encodePacket), fc.uint8Array({ maxLength: 60 }))
  const property = fc.asyncProperty(fc.array(bytes, { maxLength: 8 }), async (chunks) => {
    const [ours, other] = duplexPair()
    other.resume()
    const reasons: Error[] = []
    const tried = new Connection(ours, { clock: fakeClock(), onClose: (reason) => reasons.push(reason) })
    const call = watch(tried.call('domain_get_state', { dom, flags: 0 }))
    const console = watch(tried.stream('domain_open_console', { dom, dev_name: null, flags: 0 }))
    for (const chunk of chunks) other.write(chunk)
    await settle()
    tried.close()
    await settle()
    return (
      reasons.length === 1 &&
      reasons[0] instanceof ConnectionLost &&
      call.outcome !== undefined &&
      !(call.outcome instanceof TypeError) &&
      console.outcome !== undefined
    )
  })
  expect((await fc.check(property, { numRuns: 300 })).counterexample).toBe(null)
})

describe('liveness', () => {
  const pong = { program: keepalive.program, procedure: keepalive.pong, type: packetType.message, serial: 0 }

  test('a PING is sent every 5 s; the connection lives while it receives anything', async () => {
    for (let round = 1; round <= 10; round += 1) {
      await clock.advance(5000)
      send(pong)
      await settle()
      expect(pings).toBe(round)
    }
    expect(closed).toEqual([])
  })

  test('a daemon that is silent for 20 s in spite of PINGs is lost, and its calls reject', async () => {
    const call = watch(readState(60_000))
    await clock.advance(15_000)
    expect(closed).toEqual([])
    await clock.advance(5000)
    expect(closed).toMatchObject([{ message: 'libvirtd does not respond to PINGs' }])
    expect(call.outcome).toBeInstanceOf(ConnectionLost)
  })

  test('responds to a PING of the daemon', async () => {
    send({ ...pong, procedure: keepalive.ping })
    await settle()
    expect(received).toMatchObject([{ program: keepalive.program, procedure: keepalive.pong, serial: 0 }])
  })

  test('reports the end of the socket once', async () => {
    const call = watch(readState())
    theirs.destroy()
    connection.close()
    connection.close()
    await settle()
    expect(closed).toHaveLength(1)
    expect(call.outcome).toBeInstanceOf(ConnectionLost)
  })
})

describe('opening', () => {
  const authList = procedure('auth_list')
  const connectOpen = procedure('connect_open')

  test('authenticates, then opens the driver by its URI', async () => {
    const opened = watch(connection.open('qemu:///session').then(() => 'opened'))
    await settle()
    send({ procedure: authList.number, payload: encodeFields(authList.ret, { types: [0] }) })
    await settle()
    expect(received[1]?.payload).toEqual(encodeFields(connectOpen.args, { name: 'qemu:///session', flags: 0 }))
    send({ procedure: connectOpen.number, serial: 2 })
    await settle()
    expect(opened.outcome).toBe('opened')
  })

  test('closes the connection to a daemon that requires another authentication', async () => {
    const opened = watch(connection.open('qemu:///session'))
    send({ procedure: authList.number, payload: encodeFields(authList.ret, { types: [2] }) })
    await settle()
    expect(String(opened.outcome)).toContain('libvirtd requires authentication')
    expect(closed).toHaveLength(1)
  })
})

describe('a reply with file descriptors', () => {
  test('is a reply, and the byte after it for each descriptor is not read as a packet', async () => {
    const [first, second] = [watch(readState()), watch(readState())]
    const count = Buffer.from('00000002', 'hex')
    send({ type: packetType.replyWithFds, payload: Buffer.concat([count, running]) })
    theirs.write(Buffer.alloc(2))
    send({ serial: 2, payload: running })
    await settle()
    expect([first.outcome, second.outcome]).toEqual([
      { state: 1, reason: 1 },
      { state: 1, reason: 1 },
    ])
  })
})

describe('a stream', () => {
  const open = procedure('domain_open_console')
  const streamed = {
    procedure: open.number,
    type: packetType.stream,
    serial: 1,
    status: packetStatus.continue as number,
  }

  async function openStream(): Promise<CallStream> {
    const opening = connection.stream('domain_open_console', { dom, dev_name: null, flags: 0 })
    await settle()
    send({ procedure: open.number })
    const stream = await opening
    received.length = 0
    return stream
  }

  /** The events of a stream, in order. */
  function diary(stream: Duplex): string[] {
    const lines: string[] = []
    stream.on('data', (chunk: Buffer) => lines.push(chunk.toString()))
    for (const name of ['end', 'finish', 'close']) stream.on(name, () => lines.push(name))
    stream.on('error', (error: Error) => lines.push(`error ${error.message}`))
    return lines
  }

  test('of a refused call does not exist', async () => {
    const opening = watch(connection.stream('domain_open_console', { dom, dev_name: null, flags: 0 }))
    await settle()
    const payload = encodeError(new LibvirtError('Active console session exists', 9, 10))
    send({ procedure: open.number, status: packetStatus.error, payload })
    await settle()
    expect(opening.outcome).toMatchObject({ code: 9 })
  })

  test('carries data in both directions with the call’s serial, even data that arrived with the reply', async () => {
    const opening = connection.stream('domain_open_console', { dom, dev_name: null, flags: 0 })
    await settle()
    send({ procedure: open.number })
    send({ ...streamed, payload: Buffer.from('first') })
    const stream = await opening
    const lines = diary(stream)
    stream.write('typed')
    await settle()
    expect(lines).toEqual(['first'])
    expect(received.at(-1)).toEqual({ program, version, ...streamed, payload: Buffer.from('typed') })
  })

  test('sends large data in packets of 64 KiB at most', async () => {
    const stream = await openStream()
    stream.write(Buffer.alloc(150_000, 'x'))
    await settle()
    expect(received.map(({ payload }) => payload.length)).toEqual([65_536, 65_536, 18_928])
  })

  test('that the client ends waits for the daemon’s reply', async () => {
    const stream = await openStream()
    const lines = diary(stream)
    stream.end()
    await settle()
    expect(lines).toEqual([])
    expect(received).toEqual([{ program, version, ...streamed, status: packetStatus.ok, payload: Buffer.alloc(0) }])
    send({ ...streamed, status: packetStatus.ok })
    await settle()
    expect(lines.toSorted()).toEqual(['close', 'end', 'finish'])
  })

  test('that the daemon ends is ended by the client in turn', async () => {
    const stream = await openStream()
    const lines = diary(stream)
    send({ ...streamed, payload: Buffer.from('last words') })
    send({ ...streamed, payload: Buffer.alloc(0) })
    await settle()
    expect(received.map(({ status }) => status)).toEqual([packetStatus.ok])
    send({ ...streamed, status: packetStatus.ok })
    await settle()
    expect(lines).toEqual(['last words', 'end', 'finish', 'close'])
  })

  test('that the daemon aborts has its error', async () => {
    const stream = await openStream()
    const lines = diary(stream)
    const payload = encodeError(new LibvirtError('stream had I/O failure', 39, 38))
    send({ ...streamed, status: packetStatus.error, payload })
    await settle()
    expect(lines).toEqual(['error stream had I/O failure', 'close'])
    expect(received).toEqual([])
  })

  test('that the client destroys is aborted, and later data is ignored', async () => {
    const stream = await openStream()
    const lines = diary(stream)
    let isConfirmed = false
    void stream.confirmed.then(() => (isConfirmed = true))
    stream.destroy()
    await settle()
    expect(received.map(({ status, payload }) => [status, payload.length])).toEqual([[packetStatus.error, 0]])
    send({ ...streamed, payload: Buffer.from('late') })
    await settle()
    expect(isConfirmed).toBe(false)
    send({ ...streamed, status: packetStatus.ok })
    await settle()
    expect([lines, isConfirmed]).toEqual([['close'], true])
    expect(closed).toEqual([])
  })

  test('ends with its connection', async () => {
    const stream = await openStream()
    const lines = diary(stream)
    connection.close()
    await stream.confirmed
    await settle()
    expect(lines).toEqual(['error the connection was closed', 'close'])
  })

  test('without a reader pauses the socket, which does not count as silence', async () => {
    const stream = await openStream()
    for (let packet = 0; packet < 40; packet += 1) send({ ...streamed, payload: Buffer.alloc(64 * 1024, 'x') })
    await clock.advance(60_000)
    expect(closed).toEqual([])
    expect(stream.readableLength).toBeLessThan(1024 * 1024)
    let length = 0
    stream.on('data', (chunk: Buffer) => (length += chunk.length))
    for (let turn = 0; turn < 100; turn += 1) await settle()
    expect(length).toBe(40 * 64 * 1024)
  })
})

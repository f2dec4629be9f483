import type { Duplex } from 'node:stream'
import type { Clock } from '../../runtime/clock.ts'
import { ConnectionLost, DeadlineExceeded, LibvirtError, ProtocolError } from './errors.ts'
import { type Packet, encodePacket, packetReader, packetStatus, packetType } from './packet.ts'
import {
  type Arguments,
  type EventKind,
  type Procedure,
  type ProcedureName,
  type Reply,
  decodeFields,
  encodeFields,
  errorFields,
  eventKinds,
  keepalive,
  procedure,
  program,
  qemuProgram,
  version,
} from './protocol.ts'
import { CallStream } from './stream.ts'
import type { Value } from './xdr.ts'

/**
 * The daemon stops reading a connection, including PINGs, while 5 of its requests have no reply (max_client_requests).
 */
const maxOutstanding = 4

export const defaultDeadlineMs = 10_000

/** libvirtd responds to a PING within 0.6 ms, even before authentication. It sends none unless configured to. */
const pingIntervalMs = 5000
const maxMissedPings = 3

const authNone = 0

/** A decoded event. Events are not ordered relative to replies: treat an event as a hint to read again. */
export interface LibvirtEvent {
  readonly name: string
  readonly message: { readonly [field: string]: Value }
}

interface ConnectionOptions {
  readonly clock: Clock
  readonly onEvent?: (event: LibvirtEvent) => void
  /** Called once, when the connection has ended, whichever side ended it. */
  readonly onClose?: (reason: Error) => void
}

interface Call {
  readonly procedure: Procedure
  readonly serial: number
  readonly bytes: Buffer
  readonly stream: CallStream | undefined
  readonly resolve: (reply: { [field: string]: Value }) => void
  readonly reject: (error: Error) => void
  readonly cancelDeadline: () => void
}

/**
 * One connection to libvirtd, over a connected socket.
 *
 * - Replies are matched by serial and can arrive in any order. At most 4 calls are in progress; others wait.
 * - Every call has a deadline that includes the wait. A call that exceeds it still counts as in progress until its
 * reply arrives, because the daemon continues to work on it.
 * - Silence of 20 s in spite of PINGs, invalid bytes or the end of the socket reject all calls and close the connection
 * permanently.
 */
export class Connection {
  readonly #socket: Duplex
  readonly #options: ConnectionOptions
  readonly #outstanding = new Map<number, Call>()
  readonly #streams = new Map<number, CallStream>()
  #waiting: Call[] = []
  #serial = 0
  #closed: Error | undefined
  #hasHeard = false
  #missedPings = 0
  #cancelPing: () => void

  constructor(socket: Duplex, options: ConnectionOptions) {
    this.#socket = socket
    this.#options = options
    const read = packetReader()
    socket.on('data', (chunk: Buffer) => this.#receive(chunk, read))
    socket.on('error', (error) => this.#fail(new ConnectionLost('the connection to libvirtd failed', { cause: error })))
    socket.on('close', () => this.#fail(new ConnectionLost('libvirtd closed the connection')))
    this.#cancelPing = options.clock.after(pingIntervalMs, () => this.#ping())
  }

  /**
   * Authenticates, which libvirtd requires even with the method `none`, and opens the driver of `uri`:
   * `qemu:///session`, without a transport. On failure the connection is closed, since libvirtd serves only 20
   * unauthenticated ones.
   * @throws ConnectionLost, DeadlineExceeded, LibvirtError
   */
  async open(uri: string): Promise<void> {
    try {
      const { types } = await this.call('auth_list', {})
      if (!Array.isArray(types) || !types.includes(authNone)) {
        throw new ConnectionLost('libvirtd requires authentication; it must run as the same user')
      }
      await this.call('connect_open', { name: uri, flags: 0 })
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** @throws LibvirtError, ConnectionLost, DeadlineExceeded; ProtocolError if an argument does not fit */
  async call<P extends ProcedureName>(
    name: P,
    args: Arguments<P>,
    deadlineMs: number = defaultDeadlineMs,
  ): Promise<Reply<P>> {
    const reply = await this.#call(name, args, deadlineMs, undefined)
    if (!hasFields<Reply<P>>(reply, procedure(name))) throw new ProtocolError(`the reply to ${name} is incomplete`)
    return reply
  }

  /**
   * A call that is followed by data. It needs a connection of its own: while its data is not read, replies are not read
   * either.
   */
  async stream<P extends ProcedureName>(name: P, args: Arguments<P>): Promise<CallStream> {
    const { number } = procedure(name)
    const serial = this.#serial + 1
    const stream = new CallStream({
      send: (status, payload, written) => {
        if (this.#closed !== undefined) return written(this.#closed)
        const packet = { program, version, procedure: number, type: packetType.stream, serial, status, payload }
        this.#socket.write(encodePacket(packet), written)
      },
      pause: () => this.#socket.pause(),
      resume: () => this.#socket.resume(),
    })
    await this.#call(name, args, defaultDeadlineMs, stream)
    return stream
  }

  /** Rejects all calls. Domains continue to run. */
  close(): void {
    this.#fail(new ConnectionLost('the connection was closed'))
  }

  #call(
    name: ProcedureName,
    args: { readonly [argument: string]: Value },
    deadlineMs: number,
    stream: CallStream | undefined,
  ): Promise<{ [field: string]: Value }> {
    return new Promise((resolve, reject) => {
      if (this.#closed !== undefined) return reject(new ConnectionLost(`calling ${name}`, { cause: this.#closed }))
      const called = procedure(name)
      this.#serial += 1
      const serial = this.#serial
      const header = {
        program: called.program,
        version,
        procedure: called.number,
        type: packetType.call,
        serial,
        status: packetStatus.ok,
      }
      const bytes = encodePacket({ ...header, payload: encodeFields(called.args, args) })
      const cancelDeadline = this.#options.clock.after(deadlineMs, () => {
        this.#waiting = this.#waiting.filter((waiting) => waiting.serial !== serial)
        reject(new DeadlineExceeded(`${name} had no reply within ${deadlineMs} ms`))
      })
      this.#waiting.push({ procedure: called, serial, bytes, stream, resolve, reject, cancelDeadline })
      this.#sendWaiting()
    })
  }

  #sendWaiting(): void {
    while (this.#outstanding.size < maxOutstanding) {
      const call = this.#waiting.shift()
      if (call === undefined) return
      this.#outstanding.set(call.serial, call)
      if (call.stream !== undefined) this.#streams.set(call.serial, call.stream)
      this.#socket.write(call.bytes)
    }
  }

  #receive(chunk: Buffer, read: (chunk: Uint8Array) => Packet[]): void {
    if (this.#closed !== undefined) return
    this.#hasHeard = true
    try {
      for (const packet of read(chunk)) this.#route(packet)
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.#fail(new ConnectionLost('libvirtd sent an invalid packet', { cause: error }))
    }
  }

  /** By type before serial: the serial of an event is 1, which can also be that of a call. */
  #route(packet: Packet): void {
    if (packet.program === keepalive.program) {
      if (packet.procedure === keepalive.ping) this.#sendKeepalive(keepalive.pong)
      return
    }
    const isOfQemu = packet.program === qemuProgram
    if (packet.program !== program && !isOfQemu) return
    switch (packet.type) {
      case packetType.reply:
      case packetType.replyWithFds:
        return this.#acceptReply(packet)
      case packetType.message:
        if (!isOfQemu) this.#deliver(packet)
        return
      case packetType.stream:
        return this.#streamed(packet)
      default:
        return
    }
  }

  #acceptReply(packet: Packet): void {
    const call = this.#outstanding.get(packet.serial)
    const { program: ofProgram, number } = call?.procedure ?? {}
    if (call === undefined || number !== packet.procedure || ofProgram !== packet.program) {
      throw new ProtocolError(`a reply to procedure ${packet.procedure}, serial ${packet.serial}, which was not called`)
    }
    // Decoded before the call is removed, so that the call is rejected if decoding throws.
    const isError = packet.status === packetStatus.error
    const error = isError ? readError(call.procedure.name, packet.payload) : undefined
    const reply = isError ? {} : decodeFields(call.procedure.ret, packet.payload)
    this.#outstanding.delete(packet.serial)
    call.cancelDeadline()
    if (error === undefined) {
      call.resolve(reply)
    } else {
      this.#streams.delete(packet.serial)
      call.reject(error)
    }
    this.#sendWaiting()
  }

  #deliver(packet: Packet): void {
    const kind = kindsByProcedure.get(packet.procedure)
    if (kind === undefined) return
    this.#options.onEvent?.({ name: kind.name, message: decodeFields(kind.message, packet.payload) })
  }

  #streamed(packet: Packet): void {
    const stream = this.#streams.get(packet.serial)
    if (stream === undefined) return
    const isError = packet.status === packetStatus.error
    if (isError || packet.status === packetStatus.ok) this.#streams.delete(packet.serial)
    stream.receive(packet.status, packet.payload, isError ? readError('the stream', packet.payload) : undefined)
  }

  #ping(): void {
    // A stream with a slow reader pauses the socket, and silence of the daemon cannot be detected without reading.
    this.#missedPings = this.#hasHeard || this.#socket.isPaused() ? 0 : this.#missedPings + 1
    this.#hasHeard = false
    if (this.#missedPings > maxMissedPings) return this.#fail(new ConnectionLost('libvirtd does not respond to PINGs'))
    this.#sendKeepalive(keepalive.ping)
    this.#cancelPing = this.#options.clock.after(pingIntervalMs, () => this.#ping())
  }

  #sendKeepalive(number: number): void {
    const header = { program: keepalive.program, version: keepalive.version, procedure: number }
    const rest = { type: packetType.message, serial: 0, status: packetStatus.ok, payload: new Uint8Array() }
    this.#socket.write(encodePacket({ ...header, ...rest }))
  }

  #fail(reason: Error): void {
    if (this.#closed !== undefined) return
    this.#closed = reason
    this.#cancelPing()
    this.#socket.destroy()
    for (const call of [...this.#outstanding.values(), ...this.#waiting]) {
      call.cancelDeadline()
      call.reject(new ConnectionLost(`calling ${call.procedure.name}`, { cause: reason }))
    }
    for (const stream of this.#streams.values()) stream.fail(reason)
    this.#outstanding.clear()
    this.#streams.clear()
    this.#waiting = []
    this.#options.onClose?.(reason)
  }
}

const kindsByProcedure: ReadonlyMap<number, EventKind> = new Map(eventKinds.map((kind) => [kind.procedure, kind]))

/** A type guard; `decodeFields` returns all fields of the table. */
function hasFields<R>(reply: { [field: string]: Value }, called: Procedure): reply is { [field: string]: Value } & R {
  return Object.keys(called.ret).every((field) => field in reply)
}

function readError(what: string, payload: Uint8Array): LibvirtError {
  const { message, code, domain } = decodeFields(errorFields, payload)
  if (typeof code !== 'number' || typeof domain !== 'number') throw new ProtocolError('an error has no code')
  const words = typeof message === 'string' && message !== '' ? message : `${what}: error ${code} without a message`
  return new LibvirtError(words, code, domain)
}

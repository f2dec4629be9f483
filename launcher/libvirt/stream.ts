import { Duplex } from 'node:stream'
import type { LibvirtError } from './errors.ts'
import { packetStatus } from './packet.ts'

/** libvirt's clients send at most 256 KiB per packet; smaller packets let other calls through. */
const maxDataBytes = 64 * 1024

/** The part of a connection that a stream uses. */
interface StreamWire {
  /** `written` is called when the socket has accepted the packet. */
  send(status: number, payload: Uint8Array, written: (error?: Error | null) => void): void
  /** The buffer of the stream is full: stop reading the socket. The protocol has no other flow control. */
  pause(): void
  resume(): void
}

/**
 * The data that follows a call such as `domain_open_console`, in both directions. Ending it notifies the daemon and
 * waits for its reply; destroying it aborts. The daemon ends it with an empty packet, after which it still waits for
 * the client's end.
 */
export class CallStream extends Duplex {
  readonly #wire: StreamWire
  /** The end was sent, or received. */
  #finished = false
  readonly #confirmed = Promise.withResolvers<void>()
  #onFinished: (() => void) | undefined

  constructor(wire: StreamWire) {
    super({ allowHalfOpen: false })
    // The stream may fail before the caller receives it. An error without a listener would end the process, and the VM
    // with it.
    this.on('error', () => {})
    this.#wire = wire
  }

  /**
   * Resolves when the daemon has confirmed the end, or the connection was lost. The connection must not be closed
   * before: a libvirtd (11.3) with something to send to a stream whose client has just gone waits for itself forever.
   */
  get confirmed(): Promise<void> {
    return this.#confirmed.promise
  }

  /** The connection was lost, or the daemon aborts the stream. */
  fail(error?: Error): void {
    this.#finished = true
    this.#confirmed.resolve()
    this.destroy(error)
  }

  /** A STREAM packet of this stream arrived. `error` is set if its status is ERROR. */
  receive(status: number, payload: Uint8Array, error?: LibvirtError): void {
    if (status === packetStatus.error) return this.fail(error)
    if (status === packetStatus.ok) {
      this.#finished = true
      this.#onFinished?.()
      this.#confirmed.resolve()
    }
    if (this.destroyed) return
    if (status === packetStatus.continue && payload.length > 0) {
      if (!this.push(payload)) this.#wire.pause()
    } else if (!this.readableEnded) this.push(null)
  }

  override _read(): void {
    this.#wire.resume()
  }

  override _write(chunk: Uint8Array, _encoding: string, written: (error?: Error | null) => void): void {
    const rest = chunk.subarray(maxDataBytes)
    const next = rest.length === 0 ? written : sentThen(() => this._write(rest, '', written), written)
    this.#wire.send(packetStatus.continue, chunk.subarray(0, maxDataBytes), next)
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#finished) return done()
    this.#onFinished = done
    this.#wire.resume()
    this.#wire.send(packetStatus.ok, new Uint8Array(), (error) => {
      if (error) done(error)
    })
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#wire.resume()
    if (this.#finished) return done(error)
    this.#finished = true
    this.#wire.send(packetStatus.error, new Uint8Array(), () => done(error))
  }
}

function sentThen(next: () => void, failed: (error: Error) => void): (error?: Error | null) => void {
  return (error) => (error ? failed(error) : next())
}

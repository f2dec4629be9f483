import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

/** Calls `deliver` when so many bytes may be delivered: at once, or later. Each call belongs to one piece. */
export type Take = (bytes: number, deliver: () => void) => void

/**
 * A connection beneath TLS that delivers in pieces what arrives. Node's TLS reads a net.Socket natively: OpenSSL
 * processes all that the kernel has before any JavaScript runs, and messages of a handshake cost up to 5 ms for each
 * KiB. From another stream it processes each piece while `data` is emitted. The rest is not read from the kernel, but for
 * what was read with the piece, at most 64 KiB.
 */
export class MeteredSocket extends Duplex {
  readonly transport: Socket
  /** The bytes that TLS has processed. */
  delivered = 0
  #take: Take | undefined
  #pieceBytes = Infinity
  #rest: Buffer = none
  /** TLS is not paused. */
  #isWanted = false
  /** What the next piece waits for. */
  #held: object | undefined
  #isEnded = false
  #isAdvancing = false

  constructor(transport: Socket) {
    super({ allowHalfOpen: transport.allowHalfOpen })
    this.transport = transport
    const push = transport.push.bind(transport)
    // A listener would stop the socket only after another 64 KiB.
    transport.push = (chunk: Buffer | null) => {
      if (chunk === null) this.#isEnded = true
      else this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
      this.#advance()
      return chunk === null ? push(null) : this.#isReading()
    }
    // TLS ends its side itself, after it has written what waits.
    transport.allowHalfOpen = true
    transport.on('error', (error) => this.destroy(error)).on('close', () => this.destroy())
  }

  /** From now on, `take` decides about each piece of at most so many bytes. */
  limit(pieceBytes: number, take: Take): void {
    this.#pieceBytes = pieceBytes
    this.#take = take
  }

  /** From now on, what arrives is delivered at once. */
  trust(): void {
    this.#pieceBytes = Infinity
    this.#take = undefined
    this.#held = undefined
    process.nextTick(() => this.#continue())
  }

  get remoteAddress(): string | undefined {
    return this.transport.remoteAddress
  }

  /** What was read and not delivered yet, in bytes. */
  get waitingBytes(): number {
    return this.#rest.length
  }

  /** Whether a piece waits to be delivered. */
  isHeld(): boolean {
    return this.#held !== undefined
  }

  /** The readable side has no buffer of its own, in which a piece could wait that has been paid for. */
  override resume(): this {
    this.#isWanted = true
    process.nextTick(() => this.#continue())
    return this
  }

  override pause(): this {
    this.#isWanted = false
    return this
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.transport.write(chunk, done)
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.transport.cork()
    for (const [index, { chunk }] of chunks.entries()) {
      this.transport.write(chunk, index === chunks.length - 1 ? done : undefined)
    }
    this.transport.uncork()
  }

  override _final(done: (error?: Error | null) => void): void {
    this.transport.end(() => done())
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#rest = none
    this.transport.destroy()
    done(error)
  }

  #isReading(): boolean {
    return this.#isWanted && !this.isHeld() && this.#rest.length === 0
  }

  #continue(): void {
    this.#advance()
    if (this.#isReading() && !this.destroyed) this.transport._read(0)
  }

  #advance(): void {
    if (this.#isAdvancing) return
    this.#isAdvancing = true
    while (this.#isWanted && !this.isHeld() && this.#rest.length > 0 && !this.destroyed) {
      const piece = this.#rest.subarray(0, this.#pieceBytes)
      if (this.#take === undefined) this.#deliver(piece)
      else {
        const held = {}
        this.#held = held
        this.#take(piece.length, () => {
          if (this.#held !== held) return
          this.#held = undefined
          this.#deliver(piece)
          if (!this.#isAdvancing) process.nextTick(() => this.#continue())
        })
      }
    }
    this.#isAdvancing = false
    if (!this.#isEnded || this.#rest.length > 0 || this.isHeld() || this.destroyed) return
    this.#isEnded = false
    this.emit('end')
  }

  #deliver(piece: Buffer): void {
    if (this.destroyed) return
    this.#rest = this.#rest.subarray(piece.length)
    this.delivered += piece.length
    this.emit('data', piece)
  }
}

const none = Buffer.alloc(0)

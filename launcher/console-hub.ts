import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { createBackOff } from '../runtime/back-off.ts'
import type { Clock } from '../runtime/clock.ts'
import { endMark, escaped } from '../runtime/end-mark.ts'
import type { Logger } from '../runtime/log.ts'
import { consolePastBytes, sessionsPerVm, type ConsolePosition, type ConsoleTarget } from '../runtime/session-api.ts'
import { ConsolePast } from './console-past.ts'
import type { GuestSession } from './guest-session.ts'
import { Refused } from './refused.ts'

/**
 * Output that arrives within this time is sent together: a guest that prints single bytes must cost its readers little.
 */
const joinMs = 4
/** This much is sent at once. */
const joinBytes = 16 * 1024

/**
 * A reader that lags by more is disconnected; it can come back, and continue where it was if the past still has that.
 * More than `consolePastBytes`, which each reader gets first. With 16 readers, these are 8 MiB, for which the launcher
 * pod has memory.
 */
export const maxLagBytes = 512 * 1024

/** How long libvirt has to close the console after the guest has ended, and then readers to accept the last output. */
const lastOutputMs = 1000

const reopening = { firstMs: 500, longestMs: 10_000, healthyMs: 60_000 }

/** A reader and writer of the console that was admitted. It gets the past and what follows. */
export type ConsoleSession = GuestSession & { readonly position: ConsolePosition }

interface HubOptions {
  /**
   * Opens the console of the guest, and disconnects any other client of it.
   * @throws Refused if the guest will never have one; other errors are temporary
   */
  readonly open: () => Promise<Duplex>
  readonly clock: Clock
  readonly log: Logger
}

/**
 * The console of the guest, for any number of readers and writers up to `sessionsPerVm.others`. It reads the console
 * from the start of the guest, always at full speed, so no reader can stall the guest or miss what it printed before.
 */
export class ConsoleHub {
  readonly #options: HubOptions
  readonly #past = new ConsolePast(consolePastBytes)
  readonly #epoch = randomBytes(4).toString('hex')
  readonly #sockets = new Set<Duplex>()
  /** They end once they have it. */
  readonly #pastReaders = new Set<Duplex>()
  /** The readers whose end is marked. */
  readonly #marked = new WeakSet<Duplex>()
  /** Sessions that were admitted, and have no socket yet: several can be admitted before the first one starts. */
  #joining = 0
  #stream: Duplex | undefined
  /** The first attempt to open the console. */
  #opening: Promise<void> | undefined
  /** The newest attempt, until its console has ended. */
  #followed = Promise.resolve()
  #wasOpen = false
  /** The guest has ended. */
  #isEnded = false
  /** Its last output has arrived. */
  #isWhole = false
  readonly #finished = Promise.withResolvers<void>()
  /** Why the console could not be opened. */
  #trouble = 'the guest does not run yet'
  /** What the open sessions typed while there was no console. */
  readonly #held = new Map<Duplex, Buffer>()
  #waiting: Buffer[] = []
  #waitingBytes = 0
  #isJoining = false
  readonly #backOff: ReturnType<typeof createBackOff>

  constructor(options: HubOptions) {
    this.#options = options
    this.#backOff = createBackOff({ ...reopening, clock: options.clock, random: () => 0 })
  }

  /**
   * QEMU has started: opens its console, again whenever it is lost. Later calls have no effect. Resolves after the first
   * attempt.
   */
  start(): Promise<void> {
    if (this.#opening === undefined) {
      const first = Promise.withResolvers<void>()
      this.#opening = first.promise
      this.#followed = this.#follow(first.resolve)
    }
    return this.#opening
  }

  /**
   * The guest has ended: every session ends after the last output. Resolves when the launcher can exit: when each reader
   * has accepted it, or after two seconds. Later calls have no other effect.
   */
  end(): Promise<void> {
    if (this.#isEnded) return this.#finished.promise
    this.#isEnded = true
    const { clock } = this.#options
    // libvirt closes the console after the last output. One that is just being opened, after libvirtd restarted, has it.
    // Linux discards what libvirtd has not read from the pty when QEMU ends: the last bytes of a guest that powers off
    // within milliseconds can be missing.
    void this.#followed.then(() => this.#finish())
    clock.after(lastOutputMs, () => {
      this.#stream?.destroy()
      this.#finish()
    })
    // Whatever the stream and the readers do.
    clock.after(2 * lastOutputMs, () => this.#finished.resolve())
    return this.#finished.promise
  }

  /**
   * Waits until the console has been opened, if the guest has just started.
   * @throws Refused if there is no console, or too many sessions
   */
  async join(target: ConsoleTarget): Promise<ConsoleSession> {
    await this.#opening
    if (!this.#wasOpen) throw new Refused('NotReady', `the VM has no serial console to connect to: ${this.#trouble}`)
    if (this.#sockets.size + this.#joining >= sessionsPerVm.others) {
      const message = `the VM already has ${sessionsPerVm.others} sessions, the most that it can have; close one of them`
      throw new Refused('TooManySessions', message)
    }
    this.#send()
    const offset = this.#offsetOf(target)
    this.#joining++
    return {
      position: { epoch: this.#epoch, offset },
      ...(target.isEndMarked ? { isEndMarked: true } : {}),
      start: (socket) => {
        this.#joining--
        if (target.isEndMarked) this.#marked.add(socket)
        this.#carry(socket, offset, target.isFollowing)
      },
      cancel: () => void this.#joining--,
    }
  }

  #offsetOf({ tailBytes = 0, after }: ConsoleTarget): number {
    const { start, end } = this.#past
    if (after === undefined) return Math.max(start, end - tailBytes)
    return after.epoch === this.#epoch && after.offset >= start && after.offset <= end ? after.offset : start
  }

  #carry(socket: Duplex, offset: number, isFollowing: boolean): void {
    // It counts as a session until everything is sent, unless it only reads the past.
    const among = isFollowing ? this.#sockets : this.#pastReaders
    among.add(socket)
    socket.once('close', () => {
      among.delete(socket)
      this.#held.delete(socket)
    })
    socket.write(this.#encoded(socket, this.#past.from(Math.max(offset, this.#past.start))))
    if (!isFollowing || this.#isWhole) return this.#end(socket.resume())
    socket.on('data', (chunk: Buffer) => this.#type(socket, chunk))
    if (socket.readableEnded) socket.end()
    socket.once('end', () => socket.end())
  }

  #encoded(socket: Duplex, chunk: Buffer): Buffer {
    return this.#marked.has(socket) ? escaped(chunk) : chunk
  }

  /** All of the output was sent. */
  #end(socket: Duplex): void {
    if (!socket.writable) return
    if (this.#marked.has(socket)) socket.write(endMark)
    socket.end()
  }

  /** What is typed while libvirtd restarts waits for its console; at most a chunk of each open session is held. */
  #type(socket: Duplex, chunk: Buffer): void {
    const stream = this.#stream
    if (stream === undefined || stream.destroyed) {
      socket.pause()
      this.#held.set(socket, chunk)
      return
    }
    if (stream.write(chunk)) return
    socket.pause()
    const resume = () => {
      stream.off('drain', resume).off('close', resume)
      socket.resume()
    }
    stream.on('drain', resume).on('close', resume)
  }

  #typeHeld(): void {
    const held = [...this.#held]
    this.#held.clear()
    for (const [socket, chunk] of held) {
      socket.resume()
      this.#type(socket, chunk)
    }
  }

  async #follow(tried: () => void): Promise<void> {
    const { open, clock, log } = this.#options
    try {
      const stream = await open()
      this.#stream = stream
      this.#wasOpen = true
      tried()
      stream.on('data', (chunk: Buffer) => this.#hear(chunk))
      this.#typeHeld()
      // It can have failed before this continues; no event follows then.
      if (!stream.destroyed) await new Promise((resolve) => stream.once('close', resolve).once('end', resolve))
      stream.destroy()
    } catch (error) {
      this.#trouble = error instanceof Error ? error.message : String(error)
      tried()
      if (error instanceof Refused) return
    }
    this.#stream = undefined
    if (this.#isEnded) return
    const retryMs = this.#backOff.next()
    log.info({ retryMs, wasOpen: this.#wasOpen, trouble: this.#trouble }, 'no console; opening it again')
    clock.after(retryMs, () => {
      if (!this.#isEnded) this.#followed = this.#follow(() => {})
    })
  }

  #finish(): void {
    this.#isWhole = true
    this.#send()
    const accepted = [...this.#sockets, ...this.#pastReaders].map(
      (socket) => new Promise((resolve) => this.#end(socket.once('finish', resolve).once('close', resolve))),
    )
    void Promise.all(accepted).then(() => this.#finished.resolve())
  }

  #hear(chunk: Buffer): void {
    this.#waiting.push(chunk)
    this.#waitingBytes += chunk.length
    if (this.#waitingBytes >= joinBytes) return this.#send()
    if (this.#isJoining) return
    this.#isJoining = true
    this.#send()
    this.#options.clock.after(joinMs, () => {
      this.#isJoining = false
      this.#send()
    })
  }

  #send(): void {
    if (this.#waiting.length === 0) return
    const [first] = this.#waiting
    const chunk = this.#waiting.length === 1 && first !== undefined ? first : Buffer.concat(this.#waiting)
    this.#waiting = []
    this.#waitingBytes = 0
    this.#past.append(chunk)
    for (const socket of this.#sockets) {
      if (!socket.writable) continue
      const sent = this.#encoded(socket, chunk)
      if (socket.writableLength + sent.length <= maxLagBytes) socket.write(sent)
      else {
        this.#options.log.info(
          { lagBytes: socket.writableLength },
          'a reader of the console is too slow; disconnecting it',
        )
        socket.destroy()
      }
    }
  }
}

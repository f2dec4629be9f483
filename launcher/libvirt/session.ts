import type { Duplex } from 'node:stream'
import type { Clock } from '../../runtime/clock.ts'
import { Connection, type LibvirtEvent, defaultDeadlineMs } from './connection.ts'
import { ConnectionLost, DeadlineExceeded, LibvirtError } from './errors.ts'
import type { Arguments, ProcedureName, Reply } from './protocol.ts'
import { Silence } from './silence.ts'

/** A new daemon responds after 0.06 to 0.2 s. */
const firstRetryMs = 50
const lastRetryMs = 2000

interface SessionOptions {
  readonly dial: () => Promise<Duplex>
  readonly uri: string
  readonly clock: Clock
  /** Runs on each new connection before any call; if it fails, the connection is closed and opened again. */
  readonly prepare?: (connection: Connection) => Promise<void>
  readonly onConnected?: () => void
  readonly onEvent?: (event: LibvirtEvent) => void
  /**
   * libvirtd accepts connections, but has not replied for 60 s (`hungMs`): neither to a call nor to the requests that
   * open a connection. Called again after each further 60 s. Only for sessions without calls that may take long.
   */
  readonly onHung?: () => void
}

/**
 * A connection that is reopened whenever it is lost, after 50 ms, doubling up to 2 s. A call waits for a connection
 * until its deadline. A call whose connection is lost in the meantime fails and is never repeated, because it may have
 * taken effect.
 */
export class Session {
  readonly #options: SessionOptions
  #connection: Connection | undefined
  #waiting = new Set<() => void>()
  #isClosed = false
  #retryMs = firstRetryMs
  /** The error of the last attempt to connect. */
  #refusal: unknown
  #cancelRetry: () => void = () => {}
  readonly #silence: Silence

  constructor(options: SessionOptions) {
    this.#options = options
    this.#silence = new Silence(options.clock, () => options.onHung?.())
  }

  /** Starts to connect; returns immediately. */
  start(): void {
    void this.#connect()
  }

  /** @throws LibvirtError, ConnectionLost, DeadlineExceeded, ProtocolError */
  async call<P extends ProcedureName>(
    name: P,
    args: Arguments<P>,
    deadlineMs: number = defaultDeadlineMs,
  ): Promise<Reply<P>> {
    const start = this.#options.clock.monotonic()
    const connection = this.#connection ?? (await this.#connected(name, deadlineMs))
    const spentMs = this.#options.clock.monotonic() - start
    return this.#observe(connection.call(name, args, deadlineMs - spentMs))
  }

  close(): void {
    this.#isClosed = true
    this.#cancelRetry()
    this.#connection?.close()
    this.#wake()
  }

  async #connect(): Promise<void> {
    const { dial, clock, onEvent, onConnected } = this.#options
    let connection: Connection | undefined
    try {
      connection = new Connection(await dial(), {
        clock,
        ...(onEvent === undefined ? {} : { onEvent }),
        onClose: () => this.#lost(connection),
      })
      await this.#observe(this.#open(connection))
    } catch (error) {
      // The connection was refused, or lost before it was open. The daemon may be starting.
      this.#refusal = error
      if (connection === undefined) {
        this.#silence.end()
        this.#retry()
      } else connection.close()
      return
    }
    if (this.#isClosed) return connection.close()
    this.#connection = connection
    this.#retryMs = firstRetryMs
    this.#wake()
    onConnected?.()
  }

  async #open(connection: Connection): Promise<void> {
    const { uri, prepare } = this.#options
    await connection.open(uri)
    await prepare?.(connection)
  }

  async #observe<T>(request: Promise<T>): Promise<T> {
    this.#silence.begin()
    try {
      const reply = await request
      this.#silence.end()
      return reply
    } catch (error) {
      if (error instanceof LibvirtError) this.#silence.end()
      else this.#silence.check()
      throw error
    }
  }

  #lost(connection: Connection | undefined): void {
    if (this.#connection === connection) this.#connection = undefined
    this.#retry()
  }

  #retry(): void {
    if (this.#isClosed) return
    this.#cancelRetry = this.#options.clock.after(this.#retryMs, () => this.start())
    this.#retryMs = Math.min(this.#retryMs * 2, lastRetryMs)
  }

  #connected(name: string, deadlineMs: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const cancel = this.#options.clock.after(deadlineMs, () => {
        this.#waiting.delete(check)
        const message = `${name}: libvirtd did not accept a connection within ${deadlineMs} ms`
        reject(new DeadlineExceeded(message, { cause: this.#refusal }))
      })
      const check = () => {
        cancel()
        if (this.#connection !== undefined) resolve(this.#connection)
        else reject(new ConnectionLost(`calling ${name}: the session was closed`))
      }
      if (this.#isClosed) check()
      else this.#waiting.add(check)
    })
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = new Set()
    for (const check of waiting) check()
  }
}

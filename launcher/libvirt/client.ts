import { type Duplex, finished } from 'node:stream'
import type { Clock } from '../../runtime/clock.ts'
import { Connection, type LibvirtEvent, defaultDeadlineMs } from './connection.ts'
import { type Arguments, type ProcedureName, type Reply, eventKinds } from './protocol.ts'
import { Session } from './session.ts'

export interface ClientOptions {
  /** Returns a connected socket. */
  readonly dial: () => Promise<Duplex>
  /** `qemu:///session` for an unprivileged daemon. */
  readonly uri: string
  readonly clock: Clock
  /**
   * Something may have changed: an event arrived, or (`undefined`) a connection was opened. libvirt does not repeat
   * missed events, so read everything again.
   */
  readonly onHint: (event: LibvirtEvent | undefined) => void
  /** libvirtd accepts connections, but has not replied to reads for 60 s. Called again after each further 60 s. */
  readonly onHung?: () => void
}

/**
 * The launcher's client for libvirtd. It has one connection for events and reads, which respond even while QEMU hangs,
 * one for calls that change something and can take long, and one for each console and each poll of the guest agent.
 * Lost connections are reopened, with all events registered again.
 */
export class Client {
  readonly #options: ClientOptions
  readonly #reads: Session
  readonly #mutations: Session

  constructor(options: ClientOptions) {
    const { dial, uri, clock, onHint, onHung } = options
    this.#options = options
    this.#mutations = new Session({ dial, uri, clock })
    this.#reads = new Session({
      dial,
      uri,
      clock,
      prepare: registerEvents,
      onConnected: () => onHint(undefined),
      onEvent: onHint,
      ...(onHung === undefined ? {} : { onHung }),
    })
  }

  /** Starts to connect; calls wait until the connection is open. */
  start(): void {
    this.#reads.start()
    this.#mutations.start()
  }

  /** For calls that are quick and change nothing. */
  read<P extends ProcedureName>(name: P, args: Arguments<P>, deadlineMs?: number): Promise<Reply<P>> {
    return this.#reads.call(name, args, deadlineMs)
  }

  mutate<P extends ProcedureName>(name: P, args: Arguments<P>, deadlineMs?: number): Promise<Reply<P>> {
    return this.#mutations.call(name, args, deadlineMs)
  }

  /** A call that is followed by data, on a connection of its own that is closed when libvirtd has confirmed the end. */
  async stream<P extends ProcedureName>(name: P, args: Arguments<P>): Promise<Duplex> {
    const connection = new Connection(await this.#options.dial(), { clock: this.#options.clock })
    await connection.open(this.#options.uri)
    try {
      const stream = await connection.stream(name, args)
      finished(stream, () => {
        const cancel = this.#options.clock.after(defaultDeadlineMs, () => connection.close())
        void stream.confirmed.then(cancel).then(() => connection.close())
      })
      return stream
    } catch (error) {
      connection.close()
      throw error
    }
  }

  /** Calls that the guest can hold up, on a connection of their own, so that no other call waits for them. */
  async apart<T>(run: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = new Connection(await this.#options.dial(), { clock: this.#options.clock })
    try {
      await connection.open(this.#options.uri)
      return await run(connection)
    } finally {
      connection.close()
    }
  }

  close(): void {
    this.#reads.close()
    this.#mutations.close()
  }
}

async function registerEvents(connection: Connection): Promise<void> {
  for (const { id } of eventKinds) {
    await connection.call('connect_domain_event_callback_register_any', { event_id: id, dom: null })
  }
}

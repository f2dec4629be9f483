import { type Duplex, duplexPair } from 'node:stream'
import { LibvirtError } from '../launcher/libvirt/errors.ts'
import { type Packet, encodePacket, packetReader, packetStatus, packetType } from '../launcher/libvirt/packet.ts'
import {
  decodeFields,
  encodeFields,
  errorFields,
  eventKinds,
  keepalive,
  procedureByNumber,
  program,
  version,
} from '../launcher/libvirt/protocol.ts'
import type { Value } from '../launcher/libvirt/xdr.ts'

/** libvirt's numbers for states, lifecycle events and reasons that the tests use. */
const states = { running: 1, paused: 3, shutdown: 4, shutoff: 5 } as const
const lifecycle = { defined: 0, undefined: 1, started: 2, suspended: 3, resumed: 4, stopped: 5, shutdown: 6 } as const
const stateReason = {
  unknown: 0,
  booted: 1,
  user: 1,
  shutdown: 1,
  destroyed: 2,
  crashed: 3,
  ioerror: 5,
  unpaused: 5,
  daemon: 8,
  startingUp: 11,
} as const
const startPaused = 1

interface FakeDomain {
  readonly name: string
  readonly uuid: Uint8Array
  readonly xml: string
  id: number
  state: number
  reason: number
}

interface FakeConnection {
  readonly socket: Duplex
  isAuthenticated: boolean
  isOpen: boolean
  readonly events: Set<number>
  console: { domain: FakeDomain; serial: number; procedure: number } | undefined
}

/**
 * An in-memory libvirtd that speaks the protocol: enough domains, events and consoles for the contract suite, with the
 * order of events, the limits and the error numbers of a real one. A guest whose XML names a disk `…powerOff…` powers
 * itself off when it begins to run; `…echo…` has an echoing console.
 */
export interface FakeLibvirtd {
  dial(): Promise<Duplex>
  /** Breaks every connection and refuses this many dials. Domains continue to run. */
  restart(refusedDials?: number): void
  /** Every running guest dies; the daemon sends an event, or, like one that has just been restarted, sends none. */
  killGuests(how?: { hasEvent: boolean; reason?: 'crashed' | 'daemon' | 'unknown' }): void
  /** The guest with the name powers itself off. */
  powerOff(name: string): void
  /** Every running guest powers itself off, but the daemon does not end its QEMU. */
  beginPowerOff(): void
  /** The daemon stops reading and responding, but keeps its connections open. */
  mute(): void
  /**
   * Until a restart, calls for a domain have no reply, as when a thread of the daemon holds the domain's lock forever.
   */
  lockGuests(): void
  /**
   * QEMU stops responding on its monitor; the daemon still reports the state, but waits for QEMU to describe an active
   * domain, to list the errors of its disks, or to press its power button.
   */
  hangGuests(): void
  resumeGuests(): void
  /** The disks of every running guest have these errors, which pause it. */
  pauseGuests(errors: readonly { readonly disk: string; readonly error: number }[]): void
  /** What agents in guests reply to each question, by the number of its type; undefined: nothing, ever. */
  answerAgents(reply: ((types: number) => readonly { field: string; value: number | string }[]) | undefined): void
  /**
   * What agents in guests return for a command (`guest-exec`) with its arguments; an error refuses it, and undefined is
   * no reply, ever.
   */
  runInGuests(run: (command: string, args: { readonly [name: string]: unknown }) => unknown): void
  /**
   * The guests thaw their file systems by themselves, as Windows does after 10 s.
   * @param left how many stay frozen
   */
  thawGuests(left?: number): void
  /** The next start has no reply, and lasts until the returned function is called. */
  startSlowly(): () => void
  /** The next call of `procedure` is refused. */
  refuseNext(procedure: string, error: LibvirtError): void
  /** The next call of `procedure` is executed, but the connection breaks before its reply. */
  breakAfterNext(procedure: string): void
  /** The media that were inserted, by their source in XML, or `empty`. */
  readonly media: readonly string[]
  /** The calls received, by name, in order. */
  readonly calls: readonly string[]
}

/** libvirtd waits for QEMU's monitor before it responds to them. */
const callsOfMonitor: ReadonlySet<string> = new Set([
  'domain_get_disk_errors',
  'domain_get_iothread_info',
  'domain_get_xml_desc',
  'domain_shutdown_flags',
])

export function fakeLibvirtd(): FakeLibvirtd {
  const domains = new Map<string, FakeDomain>()
  const connections = new Set<FakeConnection>()
  const calls: string[] = []
  const refusals = new Map<string, LibvirtError>()
  const breaks = new Set<string>()
  let refusedDials = 0
  let isMute = false
  let areGuestsHung = false
  let areGuestsLocked = false
  let diskErrors: readonly { readonly disk: string; readonly error: number }[] = []
  let frozen = 0
  let isStartSlow = false
  const media: string[] = []
  let agentReply: Parameters<FakeLibvirtd['answerAgents']>[0] = () => []
  let runInGuest: Parameters<FakeLibvirtd['runInGuests']>[0] = () => ({})
  const held: (() => void)[] = []
  let nextId = 1
  let nextCallback = 0

  const send = (connection: FakeConnection, packet: Omit<Packet, 'program' | 'version'> & Partial<Packet>) => {
    if (!connection.socket.writableEnded && !isMute)
      connection.socket.write(encodePacket({ program, version, ...packet }))
  }

  const emit = (domain: FakeDomain, event: number, detail: number) => {
    const kind = eventKinds.find(({ name }) => name === 'lifecycle')!
    const { name, uuid, id } = domain
    const payload = encodeFields(kind.message, { callback_id: 0, msg: { dom: { name, uuid, id }, event, detail } })
    for (const connection of connections) {
      if (!connection.events.has(kind.id)) continue
      // A real daemon's events have serial 1, regardless of the serials of the calls.
      const header = { procedure: kind.procedure, type: packetType.message, serial: 1, status: packetStatus.ok }
      send(connection, { ...header, payload })
    }
  }

  const end = (domain: FakeDomain, reason: number, hasEvent = true) => {
    if (reason === stateReason.shutdown) emit(domain, lifecycle.shutdown, 1)
    Object.assign(domain, { state: states.shutoff, reason, id: -1 })
    for (const connection of connections) {
      if (connection.console?.domain === domain) endConsole(connection)
    }
    if (hasEvent) emit(domain, lifecycle.stopped, reason === stateReason.crashed ? 5 : reason - 1)
    for (const respond of held.splice(0)) respond()
  }

  const hasActive = () => [...domains.values()].some(({ state }) => state !== states.shutoff)

  /** An empty packet is the end of the data. */
  const endConsole = (connection: FakeConnection) => {
    if (connection.console === undefined) return
    const { serial, procedure } = connection.console
    const header = { procedure, type: packetType.stream, serial, status: packetStatus.continue }
    send(connection, { ...header, payload: Buffer.alloc(0) })
  }

  /** Closes the console like a real daemon does when another client opens it with force. */
  const breakConsole = (connection: FakeConnection) => {
    if (connection.console === undefined) return
    const { serial, procedure } = connection.console
    const payload = encodeError(new LibvirtError('stream had I/O failure', 39, 38))
    connection.console = undefined
    send(connection, { procedure, type: packetType.stream, serial, status: packetStatus.error, payload })
  }

  const find = (dom: Value | undefined): FakeDomain => {
    const uuid = uuidOf(dom)
    const domain = domains.get(Buffer.from(uuid).toString('hex'))
    if (domain === undefined) throw new LibvirtError('Domain not found', 42, 10)
    return domain
  }

  const refOf = ({ name, uuid, id }: FakeDomain) => ({ name, uuid, id })

  const mustRun = (domain: FakeDomain) => {
    if (domain.state === states.shutoff) throw new LibvirtError('domain is not running', 55, 10)
  }

  const handlers: {
    [procedure: string]: (args: { [name: string]: Value }, connection: FakeConnection) => { [name: string]: Value }
  } = {
    auth_list: (_, connection) => {
      connection.isAuthenticated = true
      return { types: [0] }
    },
    connect_open: (_, connection) => {
      connection.isOpen = true
      return {}
    },
    connect_get_lib_version: () => ({ lib_ver: 11_003_000n }),
    connect_domain_event_callback_register_any: (args, connection) => {
      connection.events.add(Number(args['event_id']))
      nextCallback += 1
      return { callback_id: nextCallback - 1 }
    },
    connect_list_all_domains: () => ({ domains: [...domains.values()].map(refOf), ret: domains.size }),
    domain_define_xml_flags: (args) => {
      const xml = textOf(args['xml'])
      const name = /<name>(.*?)<\/name>/.exec(xml)?.[1]
      if (name === undefined) throw new LibvirtError('XML error: no name', 27, 10)
      const written = /<uuid>(.*?)<\/uuid>/.exec(xml)?.[1]?.replaceAll('-', '')
      const hex = written ?? Buffer.from(name.padEnd(16).slice(0, 16)).toString('hex')
      const uuid = Buffer.from(hex, 'hex')
      const fresh = { id: -1, state: states.shutoff, reason: 0 }
      // Defining it again affects its next start, not its state.
      const domain: FakeDomain = { ...fresh, ...domains.get(hex), name, uuid, xml }
      domains.set(hex, domain)
      emit(domain, lifecycle.defined, 0)
      return { dom: refOf(domain) }
    },
    domain_create_with_flags: (args) => {
      const domain = find(args['dom'])
      if (domain.state !== states.shutoff) throw new LibvirtError('domain is already running', 55, 10)
      if (isStartSlow) {
        Object.assign(domain, { state: states.paused, reason: stateReason.startingUp, id: nextId })
        return { result: null }
      }
      const isPaused = args['flags'] === startPaused
      const [state, reason] = isPaused ? [states.paused, stateReason.user] : [states.running, stateReason.booted]
      Object.assign(domain, { state, reason, id: nextId })
      nextId += 1
      if (!isPaused) emit(domain, lifecycle.resumed, 0)
      // The order of a real daemon: resumed before the reply, started after it.
      setImmediate(() => emit(domain, lifecycle.started, 0))
      if (isPaused) setImmediate(() => emit(domain, lifecycle.suspended, 0))
      else if (domain.xml.includes('powerOff')) setImmediate(() => end(domain, stateReason.shutdown))
      return { dom: refOf(domain) }
    },
    domain_get_state: (args) => {
      const { state, reason } = find(args['dom'])
      return { state, reason }
    },
    domain_get_iothread_info: (args) => {
      mustRun(find(args['dom']))
      return { info: [], ret: 0 }
    },
    domain_get_xml_desc: (args) => ({ xml: find(args['dom']).xml }),
    domain_shutdown_flags: (args) => {
      const domain = find(args['dom'])
      mustRun(domain)
      if (domain.xml.includes('obedient')) setImmediate(() => end(domain, stateReason.shutdown))
      return {}
    },
    domain_destroy_flags: (args) => {
      const domain = find(args['dom'])
      mustRun(domain)
      end(domain, stateReason.destroyed)
      return {}
    },
    domain_update_device_flags: (args) => {
      const domain = find(args['dom'])
      mustRun(domain)
      media.push(/<source [^>]*>/.exec(textOf(args['xml']))?.[0] ?? 'empty')
      return {}
    },
    domain_get_disk_errors: () => ({ errors: [...diskErrors], nerrors: diskErrors.length }),
    domain_resume: (args) => {
      const domain = find(args['dom'])
      mustRun(domain)
      diskErrors = []
      const isFirst = domain.state === states.paused && domain.reason === stateReason.user
      Object.assign(domain, { state: states.running, reason: stateReason.unpaused })
      emit(domain, lifecycle.resumed, 0)
      if (isFirst && domain.xml.includes('powerOff')) setImmediate(() => end(domain, stateReason.shutdown))
      return {}
    },
    domain_agent_set_response_timeout: () => ({ result: 0 }),
    domain_fsfreeze: () => {
      frozen = 2
      return { filesystems: frozen }
    },
    domain_fsthaw: () => {
      const filesystems = frozen
      frozen = 0
      return { filesystems }
    },
    domain_get_guest_info: (args) => ({ params: [...(agentReply?.(Number(args['types'])) ?? [])] }),
    qemu_domain_agent_command: (args) => {
      mustRun(find(args['dom']))
      const { execute, arguments: given } = JSON.parse(textOf(args['cmd']))
      const reply = runInGuest(execute, given)
      if (reply instanceof Error) throw reply
      return { result: reply === undefined ? null : JSON.stringify({ return: reply }) }
    },
    domain_undefine_flags: (args) => {
      const domain = find(args['dom'])
      domains.delete(Buffer.from(domain.uuid).toString('hex'))
      emit(domain, lifecycle.undefined, 0)
      return {}
    },
    domain_open_console: (args) => {
      const domain = find(args['dom'])
      mustRun(domain)
      for (const other of connections) {
        if (other.console?.domain === domain) breakConsole(other)
      }
      return {}
    },
  }

  const answer = (connection: FakeConnection, packet: Packet) => {
    const called = procedureByNumber(packet.procedure, packet.program)
    const reply = {
      program: packet.program,
      procedure: packet.procedure,
      type: packetType.reply,
      serial: packet.serial,
    }
    try {
      if (called === undefined) throw new LibvirtError(`unknown procedure: ${packet.procedure}`, 39, 7)
      if (areGuestsLocked && called.name.startsWith('domain_')) return
      if (areGuestsHung && callsOfMonitor.has(called.name) && hasActive()) {
        held.push(() => answer(connection, packet))
        return
      }
      calls.push(called.name)
      const refusal = refusals.get(called.name)
      refusals.delete(called.name)
      if (refusal !== undefined) throw refusal
      if (!connection.isAuthenticated && called.name !== 'auth_list') {
        throw new LibvirtError('authentication required', 39, 7)
      }
      if (!connection.isOpen && !['auth_list', 'connect_open'].includes(called.name)) {
        throw new LibvirtError('connection not open', 1, 7)
      }
      const args = decodeFields(called.args, packet.payload)
      if (called.name === 'domain_get_guest_info' && agentReply === undefined) return
      const result = handlers[called.name]?.(args, connection) ?? {}
      if (breaks.delete(called.name)) return void connection.socket.destroy()
      // A call without a reply.
      if (result['result'] === null) return
      if (called.name === 'domain_open_console') {
        connection.console = { domain: find(args['dom']), serial: packet.serial, procedure: packet.procedure }
      }
      send(connection, { ...reply, status: packetStatus.ok, payload: encodeFields(called.ret, result) })
    } catch (error) {
      if (!(error instanceof LibvirtError)) throw error
      send(connection, { ...reply, status: packetStatus.error, payload: encodeError(error) })
    }
  }

  const streamed = (connection: FakeConnection, packet: Packet) => {
    const console = connection.console
    if (console === undefined) return
    const header = { procedure: packet.procedure, type: packetType.stream, serial: packet.serial }
    if (packet.status !== packetStatus.continue) {
      connection.console = undefined
      send(connection, { ...header, status: packetStatus.ok, payload: Buffer.alloc(0) })
      return
    }
    if (!console.domain.xml.includes('echo')) return
    const text = Buffer.from(packet.payload).toString()
    const [typed = ''] = text.split('q')
    if (typed !== '') send(connection, { ...header, status: packetStatus.continue, payload: Buffer.from(typed) })
    if (text.includes('q')) end(console.domain, stateReason.shutdown)
  }

  const receive = (connection: FakeConnection, packet: Packet) => {
    if (packet.program === keepalive.program) {
      const pong = { ...packet, procedure: keepalive.pong }
      if (packet.procedure === keepalive.ping) connection.socket.write(encodePacket(pong))
      return
    }
    if (packet.type === packetType.call) answer(connection, packet)
    if (packet.type === packetType.stream) streamed(connection, packet)
  }

  return {
    calls,
    media,
    dial: async () => {
      if (refusedDials > 0) {
        refusedDials -= 1
        throw new Error('connect ECONNREFUSED')
      }
      const [ours, theirs] = duplexPair()
      const connection: FakeConnection = {
        socket: ours,
        isAuthenticated: false,
        isOpen: false,
        events: new Set(),
        console: undefined,
      }
      connections.add(connection)
      const read = packetReader()
      ours.on('data', (chunk: Buffer) => {
        if (!isMute) for (const packet of read(chunk)) receive(connection, packet)
      })
      ours.on('close', () => connections.delete(connection))
      ours.on('error', () => connections.delete(connection))
      // A duplex pair does not carry a destroy to the other side, as a socket does.
      theirs.on('close', () => ours.destroy())
      ours.on('close', () => theirs.destroy())
      return theirs
    },
    answerAgents: (reply) => {
      agentReply = reply
    },
    runInGuests: (run) => {
      runInGuest = run
    },
    thawGuests(left = 0) {
      frozen = left
    },
    restart: (refused = 0) => {
      refusedDials = refused
      isMute = false
      areGuestsLocked = false
      for (const { socket } of connections) socket.destroy()
    },
    killGuests: ({ hasEvent, reason = 'crashed' } = { hasEvent: true }) => {
      const active = [...domains.values()].filter(({ state }) => state !== states.shutoff)
      for (const domain of active) end(domain, stateReason[reason], hasEvent)
    },
    powerOff: (name) => {
      for (const domain of domains.values()) if (domain.name === name) end(domain, stateReason.shutdown)
    },
    beginPowerOff: () => {
      for (const domain of domains.values()) {
        domain.state = states.shutdown
        emit(domain, lifecycle.shutdown, 1)
      }
    },
    mute: () => {
      isMute = true
    },
    lockGuests: () => {
      areGuestsLocked = true
    },
    hangGuests: () => {
      areGuestsHung = true
    },
    resumeGuests: () => {
      areGuestsHung = false
      for (const respond of held.splice(0)) respond()
    },
    pauseGuests: (errors) => {
      diskErrors = errors
      for (const domain of domains.values()) {
        if (domain.state !== states.running) continue
        Object.assign(domain, { state: states.paused, reason: stateReason.ioerror })
        emit(domain, lifecycle.suspended, 2)
      }
    },
    startSlowly: () => {
      isStartSlow = true
      return () => {
        isStartSlow = false
        for (const domain of domains.values()) {
          if (domain.reason === stateReason.startingUp) domain.reason = stateReason.user
        }
      }
    },
    refuseNext: (procedure, error) => {
      refusals.set(procedure, error)
    },
    breakAfterNext: (procedure) => {
      breaks.add(procedure)
    },
  }
}

function uuidOf(dom: Value | undefined): Uint8Array {
  if (typeof dom === 'object' && dom !== null && 'uuid' in dom && dom['uuid'] instanceof Uint8Array) return dom['uuid']
  throw new LibvirtError('invalid domain', 8, 20)
}

function textOf(value: Value | undefined): string {
  if (typeof value !== 'string') throw new LibvirtError('invalid argument', 8, 20)
  return value
}

export function encodeError(error: LibvirtError): Buffer {
  const nothing = { dom: null, str1: null, str2: null, str3: null, int1: 0, int2: 0, net: null, level: 2 }
  return encodeFields(errorFields, { ...nothing, code: error.code, domain: error.domain, message: error.message })
}

import { createBackOff, type BackOff } from '../runtime/back-off.ts'
import { sleep } from '../runtime/clock.ts'
import type { Clock } from '../runtime/clock.ts'
import { formatPosition, parsePosition, type ConsolePosition } from '../runtime/session-api.ts'
import type { Attachment, Receiver } from './attachment.ts'
import { clusterLine } from './error-line.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import type { Terminal } from './terminal.ts'
import { isRefusedForever, refused, sessionPath, vmRef } from './vm-session.ts'
import type { Cluster, World } from './world.ts'

export interface ConsoleFlags {
  readonly namespace?: string
  /** False with `--no-input`. */
  readonly input?: boolean
  /** Bytes. */
  readonly tail?: number
}

export interface LogFlags {
  readonly namespace?: string
  readonly follow?: true
  readonly tail?: number
}

/** ^], as in telnet and virsh. */
const leaveKey = 0x1d
/** A session that is lost sooner than `healthyMs` is opened again after a longer wait than the one before it. */
const reopening = { firstMs: 500, longestMs: 5000, healthyMs: 10_000 }
/** The session is given up if it cannot be opened again for this long. */
const givenUpMs = 120_000

/** What a session uses of its environment. */
export type SessionStreams = Pick<World, 'out' | 'err' | 'isOutTerminal'> & {
  readonly terminal: Terminal
  readonly clock: Clock
}

/** Where the output continues that was shown so far. */
interface Progress {
  position: ConsolePosition | undefined
}

/**
 * Connects the terminal with the serial console of a VM until the user types ^] or the VM ends. Opens the session again
 * whenever it is lost, where the output stopped.
 */
export async function attachConsole(
  name: string,
  flags: ConsoleFlags,
  cluster: Cluster,
  world: SessionStreams,
): Promise<ExitCode> {
  const { terminal, clock } = world
  const vm = vmRef(name, flags, cluster)
  const isTyping = flags.input !== false
  const progress: Progress = { position: undefined }
  const left = Promise.withResolvers<'left'>()
  const leaving = new AbortController()
  const backOff = createBackOff({ ...reopening, clock, random: () => 0 })
  let session: Attachment | undefined
  const stopReading = isTyping
    ? terminal.read((chunk) => {
        const at = chunk.indexOf(leaveKey)
        const typed = at < 0 ? chunk : chunk.subarray(0, at)
        if (typed.length > 0) void session?.send(typed)
        if (at >= 0) left.resolve('left')
      })
    : () => {}
  /** Messages are written in the normal mode, because the raw mode does not translate line ends. */
  const notify = (text: string) => {
    terminal.setRaw(false)
    world.err(text)
    if (isTyping && session !== undefined) terminal.setRaw(true)
  }
  const open = () =>
    cluster.attach(
      sessionPath(vm, 'attach/console', startOf(progress, flags.tail)),
      receiverOf(progress, terminal, notify),
    )

  try {
    for (let isFirst = true; ; isFirst = false) {
      const opening = isFirst ? open() : openAgain(open, backOff, clock, leaving.signal)
      const opened = await Promise.race([opening, left.promise])
      if (opened === 'left') {
        // Otherwise the program would wait for it.
        opening.then(
          (late) => late.close(),
          () => {},
        )
        break
      }
      session = opened
      notify(isFirst ? `Connected to ${name}.${isTyping ? ' Press ^] to leave.' : ''}\n` : 'Connected again.\n')
      const closed = await Promise.race([opened.closed, left.promise])
      if (closed === 'left') break
      session = undefined
      if (closed.code === 1000 || closed.code === 1008) {
        notify(`\n${clusterLine(`The console was closed: ${closed.reason || 'no reason given'}.`)}`)
        return closed.code === 1000 ? exitCodes.fine : exitCodes.refused
      }
      const why = closed.reason || `code ${closed.code}`
      notify(`\n${clusterLine(`The connection was lost (${why}); connecting again …`)}`)
    }
    session?.close()
    session = undefined
    notify(`\nLeft the console of ${name}. The VM continues to run.\n`)
    return exitCodes.fine
  } catch (error) {
    session = undefined
    terminal.setRaw(false)
    return await refused(error, vm, cluster, world)
  } finally {
    leaving.abort()
    stopReading()
    terminal.setRaw(false)
  }
}

/** What a VM has printed until now is there as a whole, so that only a lost connection is silent for so long. */
const silentMs = 35_000

/** Prints the output of the console of a VM, and with `--follow` what it prints from then on. */
export async function printLog(
  name: string,
  flags: LogFlags,
  cluster: Cluster,
  world: SessionStreams,
): Promise<ExitCode> {
  const vm = vmRef(name, flags, cluster)
  const progress: Progress = { position: undefined }
  const decoder = new TextDecoder()
  // On a terminal, the guest must not be able to send escape sequences; a file gets what the guest printed.
  const print: Pick<Terminal, 'write'> = world.isOutTerminal
    ? {
        write: (chunk) => {
          world.out(decoder.decode(chunk, { stream: true }).replaceAll('\r', ''))
          return undefined
        },
      }
    : world.terminal
  const open = () => {
    const query = { ...startOf(progress, flags.tail), ...(flags.follow ? { follow: 'true' } : {}) }
    const receiver = receiverOf(progress, print, world.err)
    return cluster.stream(sessionPath(vm, 'log', query), flags.follow ? receiver : { ...receiver, silentMs })
  }
  try {
    const { ended } = await open()
    const isComplete = await ended
    if (flags.follow !== true) {
      if (!isComplete) throw new Usage('the log is incomplete, because the connection was lost; try again')
      return exitCodes.fine
    }
    const backOff = createBackOff({ ...reopening, clock: world.clock, random: () => 0 })
    for (;;) await (await openAgain(open, backOff, world.clock)).ended
  } catch (error) {
    const isEnd = flags.follow === true && progress.position !== undefined && isRefusedForever(error)
    if (!isEnd) return refused(error, vm, cluster, world)
    world.err(clusterLine(`The VM ${name} has ended, or the log can no longer be read: ${error.status.message}`))
    return exitCodes.fine
  }
}

/** Writes what is received, counts it, and reports what is missing before it. */
const receiverOf = (progress: Progress, to: Pick<Terminal, 'write'>, notify: (text: string) => void): Receiver => ({
  begin(position) {
    const last = progress.position
    progress.position = position
    if (last === undefined || position === undefined) return
    if (position.epoch !== last.epoch) notify('This is another start of the VM; its output begins here.\n')
    else if (position.offset > last.offset) notify(`${position.offset - last.offset} bytes of the output were lost.\n`)
  },
  receive(chunk) {
    const { position } = progress
    if (position !== undefined) progress.position = { ...position, offset: position.offset + chunk.length }
    return to.write(chunk)
  },
})

function startOf({ position }: Progress, tail: number | undefined): { readonly [name: string]: string } {
  if (position !== undefined) {
    const after = formatPosition(position)
    // A launcher chooses the position, and can choose one that is out of range after some output. Then the session
    // begins with the oldest output.
    return parsePosition(after) === undefined ? {} : { after }
  }
  return tail === undefined ? {} : { tailBytes: String(tail) }
}

/**
 * Tries to open the session until it is refused for a reason that does not pass. Waits before the first try as well: a
 * launcher can end each session as soon as it is open.
 */
async function openAgain<T>(open: () => Promise<T>, backOff: BackOff, clock: Clock, signal?: AbortSignal): Promise<T> {
  const startedMs = clock.monotonic()
  for (;;) {
    await sleep(clock, backOff.next(), signal)
    try {
      return await open()
    } catch (error) {
      if (isRefusedForever(error) || clock.monotonic() - startedMs > givenUpMs) throw error
    }
  }
}

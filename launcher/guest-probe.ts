import type { ProbeName, Probes } from '../api/probe.ts'
import { shorten } from '../api/shorten.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { shownText } from '../runtime/shown-text.ts'
import type { Client } from './libvirt/client.ts'
import type { Connection } from './libvirt/connection.ts'
import type { DomainRef } from './libvirt/domain.ts'
import { AgentRefused, type GuestProcess, readProcess, startProcess } from './libvirt/guest-exec.ts'
import { AgentUnresponsive } from './libvirt/agent-errors.ts'
import { Refused } from './refused.ts'

/** What the kubelet learns; it adds the message to the event of a failed probe. */
export interface ProbeResult {
  readonly isSuccess: boolean
  readonly message: string
}

interface GuestProbesOptions {
  readonly client: Pick<Client, 'apart'>
  /** Undefined until the launcher has its VM. */
  readonly readProbes: () => Probes | undefined
  /** Undefined until the domain is defined. */
  readonly readDomain: () => DomainRef | undefined
  /** The agent of a frozen guest runs nothing. */
  readonly isFrozen: () => boolean
  readonly clock: Clock
}

/** The agent has no event for the end of a process. */
const firstPollMs = 50
const longestPollMs = 1000
/** libvirt can wait longer for the agent than the probe does. */
const slackMs = 500
/** The kubelet cuts the message of an event at 1024 bytes. */
const maxOutput = 512

/**
 * Runs the command of a probe in the guest, when the kubelet asks for it, and waits until it has ended or the time of
 * the probe is over. Nothing can end a process in the guest from outside: one that hangs is remembered, and the probe
 * fails without starting another one until it has ended. So a guest has at most one process for each of its probes.
 *
 * While the file systems of the guest are frozen for a snapshot, the last result holds.
 */
export function createGuestProbes(options: GuestProbesOptions): (name: ProbeName) => Promise<ProbeResult> {
  const { client, readProbes, readDomain, isFrozen, clock } = options
  const attempts = new Map<ProbeName, Promise<ProbeResult>>()
  const results = new Map<ProbeName, ProbeResult>()
  const processes: Processes = new Map()

  const attempt = async (name: ProbeName, command: readonly string[], timeoutSeconds: number): Promise<ProbeResult> => {
    const dom = readDomain()
    if (dom === undefined) return failure('the guest does not run yet')
    const last = results.get(name) ?? failure('the file systems of the guest are frozen')
    if (isFrozen()) return last
    const result = await client
      .apart((connection) => runCommand({ connection, dom, name, command, timeoutSeconds, clock, processes }))
      .catch((error: unknown) => failure(explain(error)))
    // Frozen in the meantime.
    if (!result.isSuccess && isFrozen()) return last
    results.set(name, result)
    return result
  }

  return async (name) => {
    const probes = readProbes()
    if (probes === undefined) return failure('the launcher has not received its VM yet')
    const { exec, timeoutSeconds = 1 } = probes[name] ?? {}
    if (exec === undefined) throw new Refused('NotFound', `the VM has no ${name} with a command`)
    // That of an earlier request may still wait for libvirt.
    const running = attempts.get(name) ?? attempt(name, exec.command, timeoutSeconds)
    attempts.set(name, running)
    void running.finally(() => attempts.get(name) === running && attempts.delete(name))
    const { promise: late, resolve } = Promise.withResolvers<ProbeResult>()
    const cancel = clock.after(timeoutSeconds * 1000 + slackMs, () =>
      resolve(failure(`the QEMU guest agent did not answer within ${timeoutSeconds} s`)),
    )
    return Promise.race([running, late]).finally(cancel)
  }
}

/** Those whose end is not known, with the time of their start. */
type Processes = Map<ProbeName, { readonly pid: number; readonly atMs: number }>

interface Command {
  readonly connection: Connection
  readonly dom: DomainRef
  readonly name: ProbeName
  readonly command: readonly string[]
  readonly timeoutSeconds: number
  readonly clock: Clock
  readonly processes: Processes
}

/** @throws AgentUnresponsive, AgentRefused, ConnectionLost */
async function runCommand(options: Command): Promise<ProbeResult> {
  const { connection, dom, name, command, timeoutSeconds, clock, processes } = options
  const endMs = clock.monotonic() + timeoutSeconds * 1000
  const before = processes.get(name)
  if (before !== undefined && (await isRunning(connection, dom, before.pid))) {
    const seconds = Math.round((clock.monotonic() - before.atMs) / 1000)
    return failure(`the command of an earlier probe still runs in the guest, as process ${before.pid} for ${seconds} s`)
  }
  const pid = await startProcess(connection, dom, command)
  processes.set(name, { pid, atMs: clock.monotonic() })
  for (let pollMs = firstPollMs; ; pollMs = Math.min(2 * pollMs, longestPollMs)) {
    const process = await readEnd(options, pid)
    if (!process.isRunning) {
      processes.delete(name)
      return resultOf(process)
    }
    const leftMs = endMs - clock.monotonic()
    if (leftMs <= 0)
      return failure(`the command did not end within ${timeoutSeconds} s and continues in the guest as process ${pid}`)
    await sleep(clock, Math.min(pollMs, leftMs))
  }
}

/** An agent that was restarted knows no processes of before. */
async function isRunning(connection: Connection, dom: DomainRef, pid: number): Promise<boolean> {
  try {
    return (await readProcess(connection, dom, pid)).isRunning
  } catch (error) {
    if (error instanceof AgentRefused) return false
    throw error
  }
}

async function readEnd({ connection, dom, name, processes }: Command, pid: number): Promise<GuestProcess> {
  try {
    return await readProcess(connection, dom, pid)
  } catch (error) {
    if (!(error instanceof AgentRefused)) throw error
    processes.delete(name)
    const message = `cannot read how the command ended, which can have written too much: ${error.message}`
    throw new AgentRefused(message, { cause: error })
  }
}

function resultOf({ exitCode, signal, output, errors }: Exclude<GuestProcess, { isRunning: true }>): ProbeResult {
  const isSuccess = exitCode === 0 && signal === undefined
  const written = shown((isSuccess || errors.trim() === '' ? output : errors).trim())
  if (isSuccess) return { isSuccess, message: written }
  const end = signal === undefined ? `exited with status ${exitCode}` : `was ended by signal ${signal}`
  return failure(`the command ${end}${written === '' ? ', and wrote nothing' : `: ${written}`}`)
}

function explain(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof AgentUnresponsive)
    return `the QEMU guest agent does not answer: is it installed in the guest, and does it run? (${shown(message)})`
  if (error instanceof AgentRefused) return `the QEMU guest agent refuses: ${shown(message)}`
  return `libvirt does not answer: ${shown(message)}`
}

/** The guest decides the output of a command, and words of libvirt's message, which can have megabytes. */
const shown = (text: string): string => shorten(shownText(text.slice(0, maxOutput + 1)), maxOutput)

const failure = (message: string): ProbeResult => ({ isSuccess: false, message })

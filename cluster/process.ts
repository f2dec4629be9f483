import { spawn } from 'node:child_process'
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { keyOf } from './key.ts'

/** A program that runs in the background. */
export interface Daemon {
  readonly name: string
  readonly command: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  /** The contents of the files that it reads at start; a change restarts it. */
  readonly inputs?: readonly string[]
}

/** A record of a started process, sufficient to check later whether the PID still belongs to that process. */
export interface ProcessRecord {
  readonly name: string
  readonly pid: number
  /** Clock ticks from boot to the process's start (field 22 of /proc/PID/stat). A reused PID has a different one. */
  readonly startTime: string
  readonly bootId: string
  /** The key of the command and the inputs. */
  readonly key: string
}

/** The directories of the records and logs of a cluster's processes. */
export interface ProcessDirectories {
  readonly records: string
  readonly logs: string
}

/** Time between SIGTERM and SIGKILL: the API server takes several seconds to stop. */
const stopDeadlineMs = 15_000

/**
 * The start time in a line of /proc/PID/stat. The name in it is in parentheses and can contain spaces and parentheses.
 */
export function parseStartTime(stat: string): string | undefined {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
}

/**
 * Whether the process has ended but its parent has not reaped it. The main thread can end before the others, and until
 * the last one has ended, the ports of the process are in use.
 */
export function isZombie(stat: string): boolean {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' && fields[17] === '1'
}

/** Starts a daemon unless it is already running with the same command and inputs. Returns whether it was running. */
export async function ensureProcess(directories: ProcessDirectories, daemon: Daemon): Promise<'running' | 'started'> {
  const key = keyOf(...daemon.command, ...Object.entries(daemon.environment ?? {}).flat(), ...(daemon.inputs ?? []))
  const record = readRecord(directories, daemon.name)
  if (record !== undefined && record.key === key && isAlive(record)) return 'running'
  await stopProcess(directories, daemon.name)
  mkdirSync(directories.records, { recursive: true })
  mkdirSync(directories.logs, { recursive: true })
  const [program, ...rest] = daemon.command
  if (program === undefined) throw new Error(`no command for ${daemon.name}`)
  const log = openSync(join(directories.logs, `${daemon.name}.log`), 'a')
  const child = spawn(program, rest, {
    detached: true,
    stdio: ['ignore', log, log],
    cwd: '/',
    ...(daemon.environment === undefined ? {} : { env: daemon.environment }),
  })
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', (cause) => reject(new Error(`${program} does not start`, { cause })))
  })
  closeSync(log)
  child.unref()
  const { pid } = child
  const startTime = pid === undefined ? undefined : parseStartTime(readStat(pid) ?? '')
  if (pid === undefined || startTime === undefined)
    throw new Error(`${daemon.name} ended at once: ${join(directories.logs, `${daemon.name}.log`)}`)
  const started: ProcessRecord = { name: daemon.name, pid, startTime, bootId: bootId(), key }
  writeFileSync(recordPath(directories, daemon.name), JSON.stringify(started))
  return 'started'
}

/** Records the new PID of a process that was restarted by another program. */
export function recordRestart(directories: ProcessDirectories, record: ProcessRecord, pid: number): void {
  const startTime = parseStartTime(readStat(pid) ?? '')
  if (startTime === undefined) throw new Error(`${record.name} ended at once`)
  writeFileSync(recordPath(directories, record.name), JSON.stringify({ ...record, pid, startTime }))
}

/** Stops a recorded process, if it still runs, and removes its record. Kills it after a grace period. */
export async function stopProcess(directories: ProcessDirectories, name: string): Promise<void> {
  const record = readRecord(directories, name)
  if (record === undefined) return
  const deadline = Date.now() + stopDeadlineMs
  signal(record, 'SIGTERM')
  while (isAlive(record) && Date.now() < deadline) await sleep(50)
  signal(record, 'SIGKILL')
  while (isAlive(record)) await sleep(20)
  rmSync(recordPath(directories, name), { force: true })
}

function signal(record: ProcessRecord, name: 'SIGTERM' | 'SIGKILL'): void {
  try {
    if (isAlive(record)) process.kill(record.pid, name)
  } catch (error) {
    // It ended between the check and the signal.
    if (isAlive(record)) throw error
  }
}

/** A program that rejects its configuration ends within this time. */
const settledAfterMs = 1000

/** Waits until a process has run for a second. @throws if it ended before */
export async function untilSettled(directories: ProcessDirectories, name: string): Promise<void> {
  const record = readRecord(directories, name)
  const ageMs = () => Date.now() - statSync(recordPath(directories, name)).mtimeMs
  while (record !== undefined && isAlive(record)) {
    if (ageMs() > settledAfterMs) return
    await sleep(50)
  }
  throw new Error(`${name} has ended: ${join(directories.logs, `${name}.log`)}`)
}

/** Whether a recorded process still runs: same boot, same PID, same start time. */
export function isAlive(record: ProcessRecord): boolean {
  if (record.bootId !== bootId()) return false
  const stat = readStat(record.pid)
  return stat !== undefined && !isZombie(stat) && parseStartTime(stat) === record.startTime
}

export function readRecord(directories: ProcessDirectories, name: string): ProcessRecord | undefined {
  const path = recordPath(directories, name)
  if (!existsSync(path)) return undefined
  // A record that was truncated by a crash of the host is from another boot anyway.
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}

export function recordedNames(directories: ProcessDirectories): string[] {
  if (!existsSync(directories.records)) return []
  return readdirSync(directories.records).map((file) => file.replace(/\.json$/, ''))
}

export function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
}

function recordPath(directories: ProcessDirectories, name: string): string {
  return join(directories.records, `${name}.json`)
}

function readStat(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return undefined
  }
}

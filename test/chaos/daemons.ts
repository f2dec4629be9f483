import { spawn } from 'node:child_process'
import { openSync, closeSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

import { isAlive, readRecord, recordRestart, untilSettled, type Ledger } from '../../cluster/process.ts'

/**
 * Kills a process of the development cluster, as a crash would.
 *
 * @returns a function that starts it again with the same command, environment and mount namespace
 */
export function crash(ledger: Ledger, name: string, namespace?: string): () => Promise<void> {
  const record = readRecord(ledger, name)
  if (record === undefined || !isAlive(record)) throw new Error(`${name} does not run`)
  const command = words(`/proc/${record.pid}/cmdline`)
  const environment = Object.fromEntries(words(`/proc/${record.pid}/environ`).map((line) => line.split(/=(.*)/s, 2)))
  process.kill(record.pid, 'SIGKILL')
  return async () => {
    const [program = '', ...rest] =
      namespace === undefined ? command : ['nsenter', `--mount=${namespace}`, '--', ...command]
    const log = openSync(join(ledger.logs, `${name}.log`), 'a')
    const child = spawn(program, rest, { detached: true, stdio: ['ignore', log, log], cwd: '/', env: environment })
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve)
      child.once('error', reject)
    })
    closeSync(log)
    child.unref()
    if (child.pid === undefined) throw new Error(`${name} does not start`)
    recordRestart(ledger, record, child.pid)
    await untilSettled(ledger, name)
  }
}

/** Suspends a process of the cluster; returns a function that resumes it. */
export function freeze(ledger: Ledger, name: string): () => void {
  const record = readRecord(ledger, name)
  if (record === undefined || !isAlive(record)) throw new Error(`${name} does not run`)
  process.kill(record.pid, 'SIGSTOP')
  return () => void process.kill(record.pid, 'SIGCONT')
}

function words(file: string): string[] {
  return readFileSync(file, 'utf8').split('\0').slice(0, -1)
}

import { spawn } from 'node:child_process'
import { openSync, closeSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { namespaceHolder } from '../../cluster/namespace.ts'
import { isAlive, readRecord, recordRestart, untilSettled, type ProcessDirectories } from '../../cluster/process.ts'

/**
 * Kills a process of the development cluster, as a crash would, and waits until it has ended: until then, its ports are
 * in use.
 *
 * @returns a function that starts it again with the same command, environment and mount namespace
 */
export async function crash(
  directories: ProcessDirectories,
  state: string,
  name: string,
): Promise<() => Promise<void>> {
  const record = readRecord(directories, name)
  if (record === undefined || !isAlive(record)) throw new Error(`${name} does not run`)
  const command = words(`/proc/${record.pid}/cmdline`)
  const environment = Object.fromEntries(words(`/proc/${record.pid}/environ`).map((line) => line.split(/=(.*)/s, 2)))
  process.kill(record.pid, 'SIGKILL')
  while (isAlive(record)) await sleep(20)
  return async () => {
    const namespace = namespaceOf(state, name)
    const [program = '', ...rest] =
      namespace === undefined ? command : ['nsenter', `--mount=${namespace}`, '--', ...command]
    const log = openSync(join(directories.logs, `${name}.log`), 'a')
    const child = spawn(program, rest, { detached: true, stdio: ['ignore', log, log], cwd: '/', env: environment })
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve)
      child.once('error', reject)
    })
    closeSync(log)
    child.unref()
    if (child.pid === undefined) throw new Error(`${name} does not start`)
    recordRestart(directories, record, child.pid)
    await untilSettled(directories, name)
  }
}

/** Processes of a node see that node's directories. */
function namespaceOf(state: string, name: string): string | undefined {
  const node = /^(?:kubelet|containerd)-(.+)$/.exec(name)?.[1]
  return node === undefined ? undefined : join(namespaceHolder(state), node)
}

/** Suspends a process of the cluster; returns a function that resumes it. */
export function freeze(directories: ProcessDirectories, name: string): () => void {
  const record = readRecord(directories, name)
  if (record === undefined || !isAlive(record)) throw new Error(`${name} does not run`)
  process.kill(record.pid, 'SIGSTOP')
  return () => void process.kill(record.pid, 'SIGCONT')
}

function words(file: string): string[] {
  return readFileSync(file, 'utf8').split('\0').slice(0, -1)
}

import type { ChildProcess } from 'node:child_process'
import { createBackOff } from '../runtime/back-off.ts'
import type { Clock } from '../runtime/clock.ts'

/** A daemon that lived for ten seconds had started well. */
const retries = { firstMs: 100, longestMs: 5000, healthyMs: 10_000, random: () => 0 }

/** It ends in a tenth of a second; one that hangs must not keep the pod of a VM that is over. */
const stopMs = 5000

export interface Daemon {
  /** Ends the daemon by SIGTERM, after 5 s by SIGKILL, and starts no other. QEMU is not touched. */
  stop(): Promise<void>
}

/**
 * Keeps one libvirtd running: whenever it ends, by whatever, another is started, after 100 ms, doubled up to 5 s.
 * QEMU goes on in the meantime, since it is no child of libvirtd's, and the new daemon finds it again.
 */
export function keepLibvirtd(options: {
  spawn: () => ChildProcess
  clock: Clock
  log: (message: string, fields: { [field: string]: unknown }) => void
}): Daemon {
  const { clock, log } = options
  let isStopped = false
  const backOff = createBackOff({ ...retries, clock })
  let cancel = () => {}
  let current: ChildProcess | undefined
  let ended = Promise.resolve()

  const start = () => {
    const child = options.spawn()
    current = child
    ended = new Promise((resolve) => {
      const over = (fields: { [field: string]: unknown }) => {
        resolve()
        if (current !== child || isStopped) return
        current = undefined
        log('libvirtd ended', fields)
        cancel = clock.after(backOff.next(), start)
      }
      child.once('exit', (code, signal) => over({ code, signal }))
      child.once('error', (error) => over({ err: error }))
    })
  }
  start()

  return {
    stop: async () => {
      isStopped = true
      cancel()
      current?.kill('SIGTERM')
      const cancelKill = clock.after(stopMs, () => current?.kill('SIGKILL'))
      await ended
      cancelKill()
    },
  }
}

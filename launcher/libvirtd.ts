import type { ChildProcess } from 'node:child_process'
import type { Clock } from '../runtime/clock.ts'

const firstRetryMs = 100
const lastRetryMs = 5000

/** A daemon that lived so long had started well. */
const wellMs = 10_000

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
  let retryMs = firstRetryMs
  let cancel = () => {}
  let current: ChildProcess | undefined
  let ended = Promise.resolve()

  const start = () => {
    const startedMs = clock.monotonic()
    const child = options.spawn()
    current = child
    ended = new Promise((resolve) => {
      const over = (fields: { [field: string]: unknown }) => {
        resolve()
        if (current !== child || isStopped) return
        current = undefined
        log('libvirtd ended', fields)
        retryMs = clock.monotonic() - startedMs > wellMs ? firstRetryMs : Math.min(retryMs * 2, lastRetryMs)
        cancel = clock.after(retryMs, start)
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

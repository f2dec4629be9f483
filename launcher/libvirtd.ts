import type { ChildProcess } from 'node:child_process'
import { createBackOff } from '../runtime/back-off.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { hungMs } from './libvirt/silence.ts'

/** A daemon that ran for ten seconds counts as successfully started. */
const retries = { firstMs: 100, longestMs: 5000, healthyMs: 10_000, random: () => 0 }

/** The daemon usually ends in 0.1 s. One that hangs must not delay the end of the pod. */
const stopMs = 5000

export interface Daemon {
  /**
   * Ends a daemon that hangs with SIGKILL, because it may not respond to SIGTERM; another is started. Ignored during
   * the first 60 s of a daemon: a previous one may have been silent. Does not affect QEMU.
   */
  endHung(): void
  /** Ends the daemon with SIGTERM, after 5 s with SIGKILL, and does not restart it. Does not affect QEMU. */
  stop(): Promise<void>
}

/**
 * Keeps one libvirtd running: whenever it ends, another is started after 100 ms, doubling up to 5 s. QEMU is not a
 * child of libvirtd, so it keeps running, and the new daemon reconnects to it.
 */
export function keepLibvirtd(options: { spawn: () => ChildProcess; clock: Clock; log: Logger }): Daemon {
  const { clock, log } = options
  let isStopped = false
  const backOff = createBackOff({ ...retries, clock })
  let cancel = () => {}
  let current: ChildProcess | undefined
  let startedAtMs = 0
  let ended = Promise.resolve()

  const start = () => {
    const child = options.spawn()
    current = child
    startedAtMs = clock.monotonic()
    ended = new Promise((resolve) => {
      const over = (fields: { [field: string]: unknown }) => {
        resolve()
        if (current !== child || isStopped) return
        current = undefined
        const waitMs = backOff.next()
        log.warn({ ...fields, waitMs }, 'libvirtd ended; restarting')
        cancel = clock.after(waitMs, start)
      }
      child.once('exit', (code, signal) => over({ code, signal }))
      child.once('error', (error) => over({ err: error }))
    })
  }
  start()

  return {
    endHung: () => {
      if (isStopped || current === undefined || clock.monotonic() - startedAtMs < hungMs) return
      log.error({ pid: current.pid, silentMs: hungMs }, 'libvirtd does not reply; ending it with SIGKILL')
      current.kill('SIGKILL')
    },
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

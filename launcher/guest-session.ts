import type { Duplex } from 'node:stream'
import { carry } from '../runtime/carry.ts'
import type { Clock } from '../runtime/clock.ts'
import type { ConsoleTarget, SessionHead, SessionTarget } from '../runtime/session-api.ts'
import { Refused } from './refused.ts'

/** A session that was admitted. It counts until its socket is closed. */
export interface GuestSession extends SessionHead {
  /** Carries bytes between the socket and the guest until one of them ends. */
  start(socket: Duplex): void
  /** The client has gone before the start. */
  cancel(): void
}

/** How each kind of session is opened. @throws Refused, and the errors of libvirt's client */
export interface GuestSessions {
  readonly console: (target: ConsoleTarget) => Promise<GuestSession>
  readonly screen: () => Promise<GuestSession>
  readonly port: (port: number) => Promise<GuestSession>
  readonly screenshot: () => Promise<GuestSession>
  readonly metrics: () => Promise<GuestSession>
}

export function openGuestSession(sessions: GuestSessions, target: SessionTarget): Promise<GuestSession> {
  switch (target.kind) {
    case 'console':
      return sessions.console(target)
    case 'vnc':
      return sessions.screen()
    case 'tcp':
      return sessions.port(target.port)
    case 'screenshot':
      return sessions.screenshot()
    case 'metrics':
      return sessions.metrics()
  }
}

/**
 * Opens connections and carries sessions over them, at most `most` at once.
 * @param what for the refusal of one too many: `viewers of its screen`
 */
export function createRelay({
  most,
  what,
  clock,
}: {
  readonly most: number
  readonly what: string
  readonly clock: Clock
}): (dial: () => Promise<Duplex>) => Promise<GuestSession> {
  let open = 0
  return async (dial) => {
    if (open >= most) {
      throw new Refused(
        'TooManySessions',
        `the VM already has ${most} ${what}, the most that it can have; close one of them`,
      )
    }
    open++
    try {
      const inner = await dial()
      inner.on('error', () => {}).once('close', () => open--)
      return {
        start: (socket) => void carry(socket, inner, clock),
        cancel: () => void inner.destroy(),
      }
    } catch (error) {
      open--
      throw error
    }
  }
}

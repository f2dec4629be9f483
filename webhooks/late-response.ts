import type { IncomingMessage } from 'node:http'
import { sleep, type Clock } from '../runtime/clock.ts'
import { dropHeaders } from './http2.ts'

/**
 * A response that is late makes the most requests that a user has in flight a rate: of 120, 60 per second. The API
 * server gives up discovery after 5 s, connecting included.
 */
const lateMs = 2000

/** Waits before the response to a request, but at once for no more than `most`: the others do not wait. */
export function createLateResponses(most: number, clock: Clock): (message: IncomingMessage) => Promise<void> {
  let late = 0
  return async (message) => {
    if (late >= most) return
    dropHeaders(message)
    late++
    await sleep(clock, lateMs)
    late--
  }
}

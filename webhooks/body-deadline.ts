import type { IncomingMessage } from 'node:http'
import { createArrivalDeadlines } from '../runtime/arrival-deadline.ts'
import type { AdmissionOptions } from './admission-routes.ts'
import { callerOf, isApiServer } from './caller.ts'
import { abort, streamOf } from './http2.ts'

const bytesPerDeadline = 64 * 1024

/** 1.25 s for each 64 KiB of a body that the API server forwards, so that fifty of 3 MiB can arrive concurrently. */
const forwardedTurns = 5

/**
 * 5 s for a handshake, and in addition for each 64 KiB of the API server's own admission requests: on an overloaded
 * node, it sends nothing for seconds, and it waits as long for the response.
 */
const apiServerTurns = 20

/** Starts the deadline of a handshake, and of the body of a request to a path (`pathOf`). */
export function createBodyDeadlines({
  clock,
  metrics,
  frontProxy,
}: Pick<AdmissionOptions, 'clock' | 'metrics' | 'frontProxy'>) {
  const forwarded = createArrivalDeadlines(clock, forwardedTurns)
  const fromApiServer = createArrivalDeadlines(clock, apiServerTurns)

  const isOfApiServer = (message: IncomingMessage): boolean => {
    const caller = callerOf(message, frontProxy?.(), clock.now())
    return caller !== undefined && isApiServer(caller)
  }

  /**
   * Aborts the request unless the end of its body, or 64 KiB of an admission request, arrive within each deadline. By
   * HTTP/2, those 64 KiB can be of other requests of the connection, which are the API server's as well.
   */
  const expectBody = (message: IncomingMessage, path: string, deadlines = forwarded): void => {
    const { socket } = message
    const before = socket.bytesRead
    const cancel = deadlines.start(() => {
      if (message.complete || message.destroyed || streamOf(message)?.endAfterHeaders === true) return
      // Only an admission request can have more than that.
      if (path !== 'other' && socket.bytesRead - before >= bytesPerDeadline) return expectBody(message, path)
      const isExtended = deadlines === fromApiServer
      if (!isExtended && path !== 'other' && isOfApiServer(message)) return expectBody(message, path, fromApiServer)
      metrics.rejected(path, 'deadline')
      abort(message)
    })
    message.once('close', cancel)
  }

  return { handshake: fromApiServer, expectBody: (message: IncomingMessage, path: string) => expectBody(message, path) }
}

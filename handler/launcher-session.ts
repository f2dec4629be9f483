import { type IncomingMessage, request } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pacedOptions } from '../runtime/carry.ts'
import type { Clock } from '../runtime/clock.ts'
import { InvalidLauncherResponse, parseJson, parseLauncherError } from '../runtime/launcher-api.ts'
import {
  parseHead,
  pathOfTarget,
  sessionProtocol,
  type SessionHead,
  type SessionTarget,
} from '../runtime/session-api.ts'
import { deliverPiecewise, textOf } from '../runtime/untrusted-response.ts'
import { absence, LauncherRefusal, LauncherUnreachable } from './launcher.ts'
import { openLauncherSocket, pathOf } from './socket.ts'

/** A session with a launcher. */
export interface LauncherSession extends SessionHead {
  readonly socket: Duplex
}

/** For the whole opening. A launcher responds at once, except while a console is being opened. */
const openDeadlineMs = 5000
/** A 101 has four headers at most. */
const maxHeadBytes = 4096
const maxRefusalBytes = 16 * 1024
/** Before the session, with what frames the chunks of a refusal. */
const maxBytesBefore = 2 * (maxHeadBytes + maxRefusalBytes)

/**
 * Opens a session with the launcher in the pod. The launcher can be hostile: the deadline, the size of the head and of
 * a refusal are limited, and everything but one plain 101 or a refusal ends the attempt, with at most 4 KiB parsed after
 * it.
 * @throws LauncherAbsent, LauncherUnreachable, LauncherRefusal, InvalidLauncherResponse
 */
export async function openLauncherSession(
  kubeletRoot: string,
  podUID: string,
  target: SessionTarget,
  clock: Clock,
): Promise<LauncherSession> {
  const handle = await openLauncherSocket(kubeletRoot, podUID)
  if (handle === undefined) throw absence()
  const { promise, resolve, reject } = Promise.withResolvers<LauncherSession>()
  const socket = new Socket(pacedOptions)
  const fail = (error: Error) => {
    reject(error)
    socket.destroy()
  }
  let bytesBefore = 0
  const deliverWhole = deliverPiecewise(socket, (bytes) => {
    bytesBefore += bytes
    if (bytesBefore > maxBytesBefore) fail(misbehaves('endless bytes'))
  })
  // An error after the session was handed over has its own listener there.
  socket.on('error', (error) => reject(new LauncherUnreachable(`could not reach the launcher: ${codeOf(error)}`)))
  const cancel = clock.after(openDeadlineMs, () =>
    fail(new LauncherUnreachable(`the launcher did not respond within ${openDeadlineMs / 1000} s`)),
  )
  let hasResponded = false
  const headers = { connection: 'Upgrade', upgrade: sessionProtocol }
  request({
    createConnection: () => socket.connect(pathOf(handle)),
    path: pathOfTarget(target),
    headers,
    maxHeaderSize: maxHeadBytes,
  })
    .on('upgrade', (response, _, head) => {
      hasResponded = true
      if (response.headers.upgrade?.toLowerCase() !== sessionProtocol) return fail(misbehaves('another protocol'))
      deliverWhole()
      if (head.length > 0) socket.unshift(head)
      resolve({ socket, ...parseHead(response.headers) })
    })
    .once('information', () => fail(misbehaves('an interim response')))
    .on('response', (response) => {
      hasResponded = true
      void refusalOf(response).then(fail)
    })
    .on('error', (error) => fail(errorOf(error)))
    .on('close', () => {
      if (!hasResponded) fail(new LauncherUnreachable('the launcher closed the connection without a response'))
    })
    .end()
  try {
    return await promise
  } finally {
    cancel()
    await handle.close()
  }
}

const misbehaves = (what: string) => new InvalidLauncherResponse(`it responds to a session with ${what}`)

const codeOf = (error: Error): string => ('code' in error ? String(error.code) : error.message)

/** The paths of sockets differ each time, so only the code of an error is reported. */
function errorOf(error: Error): Error {
  return codeOf(error).startsWith('HPE_')
    ? new InvalidLauncherResponse(`it does not send HTTP: ${error.message}`, { cause: error })
    : new LauncherUnreachable(`could not reach the launcher: ${codeOf(error)}`, { cause: error })
}

/** The launcher's own refusal, or how it misbehaves. */
async function refusalOf(response: IncomingMessage): Promise<Error> {
  if (response.statusCode === 101) return misbehaves('a 101 that does not upgrade')
  try {
    const body = await textOf(response, maxRefusalBytes)
    if (body === undefined) return misbehaves('an endless refusal')
    const { reason, message } = parseLauncherError(parseJson(body))
    return new LauncherRefusal(reason, message)
  } catch (error) {
    if (error instanceof InvalidLauncherResponse) return error
    return new LauncherUnreachable('the launcher closed the connection during its response', { cause: error })
  }
}

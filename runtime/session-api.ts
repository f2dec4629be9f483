/**
 * What webhooks, handler and launcher agree on about sessions: connections to a guest, such as its console. Each of
 * them opens one at the next with an HTTP/1.1 upgrade; afterwards both sides send plain bytes:
 *
 *     GET /console?tail=BYTES           Upgrade: virtset   101: the first serial console, both ways
 *     GET /console?after=POSITION
 *
 * The launcher retains the last output of the console. A session begins `tail` bytes before its end, or after a position,
 * or with the oldest bytes that are retained if that is later. The header `virtset-position` of the 101 has the position of
 * the first byte. With `follow=false`, a session ends with the output that exists.
 */

/** A place in the output of a console. */
export interface ConsolePosition {
  /** Distinguishes launchers: positions of another launcher mean nothing. Eight hexadecimal digits. */
  readonly epoch: string
  /** How many bytes the guest had printed before. */
  readonly offset: number
}

/** What a session connects to. */
export interface SessionTarget {
  readonly kind: 'console'
  readonly tailBytes?: number
  readonly after?: ConsolePosition
  readonly isFollowing: boolean
}

/** The protocol in the header `Upgrade`. */
export const sessionProtocol = 'virtset'

export const positionHeader = 'virtset-position'

/** How much output of a console a launcher retains. */
export const consolePastBytes = 256 * 1024

/** The most sessions of one VM. */
export const sessionsPerVm = 16

/** The path and query of a request to the launcher. */
export function pathOfTarget({ kind, tailBytes, after, isFollowing }: SessionTarget): string {
  const query = new URLSearchParams({
    ...(tailBytes === undefined ? {} : { tail: String(tailBytes) }),
    ...(after === undefined ? {} : { after: formatPosition(after) }),
    ...(isFollowing ? {} : { follow: 'false' }),
  })
  return `/${kind}${query.size > 0 ? `?${query.toString()}` : ''}`
}

/** Parses a path of `pathOfTarget`; undefined if it is malformed. */
export function parseTarget(path: string): SessionTarget | undefined {
  const url = URL.parse(path, 'http://launcher')
  if (url?.pathname !== '/console') return undefined
  const [tail, after, follow] = ['tail', 'after', 'follow'].map((name) => url.searchParams.get(name) ?? undefined)
  const position = after === undefined ? undefined : parsePosition(after)
  if ((after !== undefined && position === undefined) || (tail !== undefined && !/^\d{1,9}$/.test(tail))) {
    return undefined
  }
  return {
    kind: 'console',
    ...(tail === undefined ? {} : { tailBytes: Number(tail) }),
    ...(position === undefined ? {} : { after: position }),
    isFollowing: follow !== 'false',
  }
}

export const formatPosition = ({ epoch, offset }: ConsolePosition): string => `${epoch}.${offset}`

/** Undefined if the text is not a position. */
export function parsePosition(text: string): ConsolePosition | undefined {
  const [, epoch, offset] = /^([0-9a-f]{8})\.(\d{1,15})$/.exec(text) ?? []
  return epoch === undefined ? undefined : { epoch, offset: Number(offset) }
}

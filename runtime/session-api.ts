import type { IncomingHttpHeaders } from 'node:http'

/**
 * What webhooks, handler and launcher agree on about sessions: connections to a guest, such as its console. Each of
 * them opens one at the next with an HTTP/1.1 upgrade; afterwards both sides send plain bytes:
 *
 *     GET /console?tail=BYTES           Upgrade: virtset   101: the first serial console, both ways
 *     GET /console?after=POSITION
 *     GET /console?mark=true                               the same, with a marked end: end-mark.ts
 *     GET /vnc                                             101: RFB with QEMU's VNC server, both ways
 *     GET /tcp/PORT                                        101: a TCP connection to a port of the pod, both ways
 *     GET /screenshot                                      101: a PNG of the first screen, then the end
 *     GET /metrics                                         101: what the guest uses, as JSON, then the end
 *
 * The launcher retains the last output of the console. A session begins `tail` bytes before its end, or after a
 * position, or with the oldest bytes that are retained if that is later. The header `virtset-position` of the 101 has
 * the position of the first byte. With `follow=false`, a session ends with the output that exists. The 101 of a session
 * whose end is marked has the header `virtset-end: marked`; launchers and handlers of earlier versions mark none.
 */

/** A place in the output of a console. */
export interface ConsolePosition {
  /** Distinguishes launchers: positions of another launcher mean nothing. Eight hexadecimal digits. */
  readonly epoch: string
  /** How many bytes the guest had printed before. */
  readonly offset: number
}

export interface ConsoleTarget {
  readonly kind: 'console'
  readonly tailBytes?: number
  readonly after?: ConsolePosition
  readonly isFollowing: boolean
  readonly isEndMarked?: true
}

export interface PortTarget {
  readonly kind: 'tcp'
  /** From 1 to 65535. */
  readonly port: number
}

/** What a session connects to. */
export type SessionTarget =
  | ConsoleTarget
  | PortTarget
  | { readonly kind: 'vnc' }
  | { readonly kind: 'screenshot' }
  | { readonly kind: 'metrics' }

/** The protocol in the header `Upgrade`. */
export const sessionProtocol = 'virtset'

export const positionHeader = 'virtset-position'
const endHeader = 'virtset-end'

/** What the 101 states of the console. */
export interface SessionHead {
  /** The position of the first byte; only of a console. */
  readonly position?: ConsolePosition
  readonly isEndMarked?: true
}

/** How much output of a console a launcher retains. */
export const consolePastBytes = 256 * 1024

/** A PNG of a large screen with noise has no more. */
export const maxScreenshotBytes = 32 * 1024 * 1024

/** The metrics of a guest with 64 disks have a fifth of it. */
export const maxMetricsBytes = 64 * 1024

const pngStart = Buffer.from('89504e470d0a1a0a', 'hex')
export const pngStartBytes = pngStart.length

/** Whether a picture begins like a PNG. Needs the first `pngStartBytes` of it. */
export const isPng = (picture: Uint8Array): boolean => pngStart.equals(picture.subarray(0, pngStartBytes))

/** The most sessions of one VM, by kind. Connections to ports count on their own, since programs open many at once. */
export const sessionsPerVm = { ports: 32, others: 16 } as const

export type SessionPool = keyof typeof sessionsPerVm

export const poolOf = ({ kind }: SessionTarget): SessionPool => (kind === 'tcp' ? 'ports' : 'others')

/** The path and query of a request to the launcher. */
export function pathOfTarget(target: SessionTarget): string {
  if (target.kind === 'console') return consolePath(target)
  return target.kind === 'tcp' ? `/tcp/${target.port}` : `/${target.kind}`
}

function consolePath({ tailBytes, after, isFollowing, isEndMarked }: ConsoleTarget): string {
  const query = new URLSearchParams({
    ...(tailBytes === undefined ? {} : { tail: String(tailBytes) }),
    ...(after === undefined ? {} : { after: formatPosition(after) }),
    ...(isFollowing ? {} : { follow: 'false' }),
    ...(isEndMarked ? { mark: 'true' } : {}),
  })
  return `/console${query.size > 0 ? `?${query.toString()}` : ''}`
}

/** Parses a path of `pathOfTarget`; undefined if it is malformed. */
export function parseTarget(path: string): SessionTarget | undefined {
  const port = /^\/tcp\/(\d{1,5})$/.exec(path)?.[1]
  if (port !== undefined) return isPort(Number(port)) ? { kind: 'tcp', port: Number(port) } : undefined
  if (path === '/vnc') return { kind: 'vnc' }
  if (path === '/screenshot') return { kind: 'screenshot' }
  if (path === '/metrics') return { kind: 'metrics' }
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
    ...(url.searchParams.get('mark') === 'true' ? { isEndMarked: true } : {}),
  }
}

/** The 101 that begins a session. */
export function formatHead(upgrade: string, { position, isEndMarked }: SessionHead): string {
  const headers = [
    ...(position === undefined ? [] : [`${positionHeader}: ${formatPosition(position)}`]),
    ...(isEndMarked ? [`${endHeader}: marked`] : []),
  ]
  const lines = ['HTTP/1.1 101 Switching Protocols', 'Connection: Upgrade', `Upgrade: ${upgrade}`, ...headers]
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** @param headers those of the 101 */
export function parseHead(headers: IncomingHttpHeaders): SessionHead {
  const position = parsePosition(String(headers[positionHeader] ?? ''))
  return {
    ...(position === undefined ? {} : { position }),
    ...(headers[endHeader] === 'marked' ? { isEndMarked: true } : {}),
  }
}

export const isPort = (port: number): boolean => Number.isInteger(port) && port >= 1 && port <= 65535

export const formatPosition = ({ epoch, offset }: ConsolePosition): string => `${epoch}.${offset}`

/** Undefined if the text is not a position. */
export function parsePosition(text: string): ConsolePosition | undefined {
  const [, epoch, offset] = /^([0-9a-f]{8})\.(\d{1,15})$/.exec(text) ?? []
  return epoch === undefined ? undefined : { epoch, offset: Number(offset) }
}

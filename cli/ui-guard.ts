import { timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** Why a request is refused. */
export interface Refusal {
  readonly status: 401 | 403
  readonly message: string
}

/** What the page of this server sends. */
export interface Expected {
  /** The names of this server, for example `127.0.0.1:41237`. */
  readonly hosts: readonly string[]
  /** The value of the cookie. */
  readonly secret: string
}

export const cookieName = 'virtset'

/**
 * Protects the credentials of the user behind a server on the loopback interface. Every check is for requests and for
 * upgrades, because browsers restrict WebSockets to no origin.
 *
 * - A page whose name resolves to 127.0.0.1 (DNS rebinding) sends its own name as `Host`.
 * - A page of another origin, or of another port of this host, sends its `Origin`, or a `Sec-Fetch-Site`.
 * - Another user of this host, and every other program, has no cookie. A browser sends cookies to every port of a host,
 *   also to the server of another user, so the cookie is for a folder that only this server has.
 */
export function refusalOf(headers: IncomingHttpHeaders, { hosts, secret }: Expected): Refusal | undefined {
  const foreign = foreignOf(headers, hosts)
  if (foreign !== undefined) return foreign
  const cookie = new RegExp(`(?:^|; )${cookieName}=([^;]+)`).exec(headers.cookie ?? '')?.[1]
  if (cookie !== undefined && isSame(cookie, secret)) return undefined
  return { status: 401, message: 'open the link that kubectl vm ui has printed; it can be used once' }
}

/** Whether a request comes from elsewhere; the request that sets the cookie has only this check. */
export function foreignOf(headers: IncomingHttpHeaders, hosts: readonly string[]): Refusal | undefined {
  const { host = '', origin, 'sec-fetch-site': site } = headers
  if (!hosts.includes(host)) return { status: 403, message: 'the request names another host' }
  if (origin !== undefined && !hosts.some((one) => origin === `http://${one}`)) {
    return { status: 403, message: 'the request comes from another origin' }
  }
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    return { status: 403, message: 'the request comes from another site' }
  }
  return undefined
}

/** Compares in a time that does not depend on the content. */
export function isSame(given: string, secret: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(secret)]
  return left.length === right.length && timingSafeEqual(left, right)
}

/**
 * Only the page's own code runs, and it connects only with this server. The terminal creates style elements.
 */
export const securityHeaders: { readonly [name: string]: string } = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "style-src-elem 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
}

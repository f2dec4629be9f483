import type { IncomingMessage } from 'node:http'
import { TLSSocket } from 'node:tls'
import type { User } from './review.ts'
import { identify, readHeaders } from './subresources/front-proxy.ts'
import type { FrontProxy } from './subresources/front-proxy.ts'

/** On whose behalf the API server's aggregator sends a request; undefined when anybody else sends it. */
export function callerOf(
  { socket, headersDistinct }: IncomingMessage,
  frontProxy: FrontProxy | undefined,
  nowMs: number,
): User | undefined {
  const certificate = socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined
  return frontProxy && identify(frontProxy, certificate, readHeaders(headersDistinct), nowMs)
}

/**
 * Whether it is the API server that asks on its own behalf. `system:apiserver` is the user of its loopback client, with which it calls webhooks at
 * `kubernetes.default.svc`; `system:masters` is a group that no certificate request can be signed for.
 */
export const isApiServer = ({ username, groups }: User): boolean =>
  username === 'system:apiserver' && groups.includes('system:masters')

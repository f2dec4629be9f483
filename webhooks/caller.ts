import type { IncomingMessage } from 'node:http'
import { TLSSocket } from 'node:tls'
import type { User } from './admission/request.ts'
import { identify, readHeaders } from './subresources/front-proxy.ts'
import type { FrontProxy } from './subresources/front-proxy.ts'

/** The user for whom the API server's aggregator sends a request; undefined if any other client sends it. */
export function callerOf(
  { socket, rawHeaders }: Pick<IncomingMessage, 'socket' | 'rawHeaders'>,
  frontProxy: FrontProxy | undefined,
  nowMs: number,
): User | undefined {
  const certificate = socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined
  return frontProxy && identify(frontProxy, certificate, readHeaders(frontProxy, rawHeaders), nowMs)
}

/**
 * Whether the caller is the API server itself. `system:apiserver` is the user of its loopback client, with which it
 * calls webhooks at `kubernetes.default.svc`; certificate requests for the group `system:masters` are never signed.
 */
export const isApiServer = ({ username, groups }: User): boolean =>
  username === 'system:apiserver' && groups.includes('system:masters')

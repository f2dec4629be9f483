import { parseTarget, pathOfTarget, type SessionTarget } from './session-api.ts'

/**
 * What webhooks and handlers agree on about a handler’s session server: a TLS server with a self-signed certificate,
 * which the handler publishes in its NodeProfile. The webhooks compare the certificate before they send anything. Each
 * request is a session with a pod of a VM of that node:
 *
 *     GET /pods/UID/console?…   Upgrade: virtset, Authorization: Bearer TOKEN   101, then as in session-api.ts
 *
 * Refusals are `{error: {reason, message}}` as in launcher-api.ts, most of them the launcher's own.
 */

/** The audience of tokens for handlers: the API server does not accept them, and handlers accept no others. */
export const sessionAudience = 'virtset-handler'

export const endpointPath = (podUID: string, target: SessionTarget): string => `/pods/${podUID}${pathOfTarget(target)}`

/** Undefined if the path is malformed. */
export function parseEndpointPath(
  path: string,
): { readonly podUID: string; readonly target: SessionTarget } | undefined {
  const [, podUID, rest] = /^\/pods\/([0-9a-f-]{36})(\/.*)$/.exec(path) ?? []
  const target = rest === undefined ? undefined : parseTarget(rest)
  return podUID === undefined || target === undefined ? undefined : { podUID, target }
}

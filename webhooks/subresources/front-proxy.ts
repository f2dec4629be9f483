import type { X509Certificate } from 'node:crypto'
import type { Clock } from '../../runtime/clock.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import type { Logger } from '../../runtime/log.ts'
import { startReflector } from '../../runtime/reflector.ts'
import type { Reflector } from '../../runtime/reflector.ts'
import { resource } from '../../runtime/resource.ts'
import type { KubeObject } from '../../runtime/resource.ts'
import type { User } from '../admission/request.ts'
import { isTrustedClient, parseAuthorities } from '../certificates/client.ts'

/** How the API server's aggregator proves its identity, and the headers in which it sends the user. */
export interface FrontProxy {
  readonly authorities: readonly X509Certificate[]
  /** Common names of client certificates; if empty, any name is allowed. */
  readonly allowedNames: readonly string[]
  /** Headers in lower case. */
  readonly usernameHeaders: readonly string[]
  readonly groupHeaders: readonly string[]
  readonly uidHeaders: readonly string[]
  readonly extraPrefixes: readonly string[]
}

/** Every value of each header, by name in lower case. */
export type Headers = { readonly [name: string]: readonly string[] | undefined }

interface ConfigMap extends KubeObject {
  readonly data?: { readonly [key: string]: string }
}

const configMaps = resource<ConfigMap>({
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
})

/** The API server publishes its front proxy here for every extension server. */
const namespace = 'kube-system'
const name = 'extension-apiserver-authentication'

export interface FrontProxyWatch {
  /** Undefined until the ConfigMap has been read, and if the cluster has no front proxy. */
  current(): FrontProxy | undefined
  readonly reflector: Pick<Reflector<KubeObject>, 'ageMs' | 'statistics' | 'hasSynced' | 'synced'>
  stop(): Promise<void>
}

/** Watches the ConfigMap. A new authority applies as soon as the watch reports it, also to open connections. */
export function watchFrontProxy(kube: KubeClient, log: Logger, clock: Clock, changed: () => void): FrontProxyWatch {
  const reflector = startReflector({ kube, resource: configMaps, namespace, name, log, clock })
  let current: FrontProxy | undefined
  reflector.onChange(({ kind, object }) => {
    // The API server creates it again within a minute, with the same authorities.
    if (kind === 'deleted') return
    current = parseFrontProxy(object.data ?? {})
    log.info({ authorities: current?.authorities.map(({ subject }) => subject) ?? [] }, 'front proxy changed')
    changed()
  })
  return { current: () => current, reflector, stop: () => reflector.stop() }
}

/** Undefined if the ConfigMap's data has no readable authority or no username header. */
export function parseFrontProxy(data: { readonly [key: string]: string }): FrontProxy | undefined {
  const authorities = parseAuthorities(data['requestheader-client-ca-file'] ?? '')
  const headers = (key: string) => strings(data[key]).map((header) => header.toLowerCase())
  const usernameHeaders = headers('requestheader-username-headers')
  if (authorities.length === 0 || usernameHeaders.length === 0) return undefined
  return {
    authorities,
    allowedNames: strings(data['requestheader-allowed-names']),
    usernameHeaders,
    groupHeaders: headers('requestheader-group-headers'),
    uidHeaders: headers('requestheader-uid-headers'),
    extraPrefixes: headers('requestheader-extra-headers-prefix'),
  }
}

/**
 * The user of a request from the front proxy; undefined if the sender is not the front proxy. Its client certificate
 * must be valid now, be for client authentication, and be signed directly by one of the front proxy's authorities.
 * Headers from any other client are ignored.
 */
export function identify(
  frontProxy: FrontProxy,
  certificate: X509Certificate | undefined,
  headers: Headers,
  nowMs: number,
): User | undefined {
  const { authorities, allowedNames: names } = frontProxy
  if (certificate === undefined || !isTrustedClient({ authorities, names }, certificate, nowMs)) return undefined
  const first = (names: readonly string[]) =>
    names.flatMap((header) => headers[header] ?? []).find((value) => value !== '')
  const username = first(frontProxy.usernameHeaders)
  if (username === undefined) return undefined
  const uid = first(frontProxy.uidHeaders)
  const extra = extraOf(frontProxy.extraPrefixes, headers)
  return {
    username,
    groups: frontProxy.groupHeaders.flatMap((header) => headers[header] ?? []),
    ...(uid === undefined ? {} : { uid }),
    ...(Object.keys(extra).length === 0 ? {} : { extra }),
  }
}

/** Keys are percent-encoded, because a header's name cannot contain every character. */
function extraOf(prefixes: readonly string[], headers: Headers): { readonly [key: string]: readonly string[] } {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([header, values = []]) => {
      const prefix = prefixes.find((candidate) => header.startsWith(candidate))
      return prefix === undefined ? [] : [[decoded(header.slice(prefix.length)), values]]
    }),
  )
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function strings(json = '[]'): readonly string[] {
  try {
    const value: unknown = JSON.parse(json)
    return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
  } catch {
    return []
  }
}

/**
 * The headers that describe the user. There can be a thousand others, which the user sends.
 * @param raw names and values in turn, as in Node's `rawHeaders`
 */
export function readHeaders(
  { usernameHeaders, groupHeaders, uidHeaders, extraPrefixes }: FrontProxy,
  raw: readonly string[],
): Headers {
  const names = new Set([...usernameHeaders, ...groupHeaders, ...uidHeaders])
  const headers = new Map<string, string[]>()
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index]?.toLowerCase() ?? ''
    if (!names.has(name) && !extraPrefixes.some((prefix) => name.startsWith(prefix))) continue
    const values = headers.get(name) ?? []
    values.push(raw[index + 1] ?? '')
    headers.set(name, values)
  }
  return Object.fromEntries(headers)
}

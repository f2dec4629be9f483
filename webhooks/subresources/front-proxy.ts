import type { X509Certificate } from 'node:crypto'
import { isRecord } from '../../api/schema.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import type { Logger } from '../../runtime/log.ts'
import { startReflector } from '../../runtime/reflector.ts'
import type { Reflector } from '../../runtime/reflector.ts'
import { resource } from '../../runtime/resource.ts'
import type { KubeObject } from '../../runtime/resource.ts'
import type { User } from '../review.ts'
import { isTrustedClient, parseAuthorities } from '../client-certificate.ts'

/** By whom the API server's aggregator says who a user is, and in which headers. */
export interface FrontProxy {
  readonly authorities: readonly X509Certificate[]
  /** Common names of client certificates; empty: whatever those authorities signed. */
  readonly allowedNames: readonly string[]
  /** Headers in lower case. */
  readonly usernameHeaders: readonly string[]
  readonly groupHeaders: readonly string[]
  readonly uidHeaders: readonly string[]
  readonly extraPrefixes: readonly string[]
}

/** Headers by their names in lower case, with every value that came. */
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

/** Where the API server publishes it for every extension server. */
const namespace = 'kube-system'
const name = 'extension-apiserver-authentication'

export interface FrontProxyWatch {
  /** Undefined before it was read, or where the cluster has no front proxy. */
  current(): FrontProxy | undefined
  readonly reflector: Pick<Reflector<KubeObject>, 'ageMs' | 'statistics' | 'hasSynced' | 'synced'>
  stop(): Promise<void>
}

/** Follows the ConfigMap. Another authority counts from the moment on in which the watch reports it, for open connections too. */
export function watchFrontProxy(kube: KubeClient, log: Logger, clock: Clock, changed: () => void): FrontProxyWatch {
  const fieldSelector = `metadata.name=${name}`
  const reflector = startReflector({ kube, resource: configMaps, namespace, fieldSelector, log, clock })
  let current: FrontProxy | undefined
  reflector.onChange(({ kind, object }) => {
    // The API server writes it again within a minute, and the authorities are the same.
    if (kind === 'deleted') return
    current = parseFrontProxy(object.data ?? {})
    log.info({ authorities: current?.authorities.map(({ subject }) => subject) ?? [] }, 'front proxy')
    changed()
  })
  return { current: () => current, reflector, stop: () => reflector.stop() }
}

/** What can be read of the ConfigMap's data; undefined where no authority or no header of names is in it. */
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
 * The user of a request, if it comes from the front proxy: over a connection whose client certificate one of its authorities signed,
 * itself and for client authentication, and which is valid now. Anybody else's headers are not even read.
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

/** Keys come percent-encoded, since a header's name cannot hold every character. */
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

/** Node's own form of headers, checked: the door for `headersDistinct`. */
export const readHeaders = (headers: unknown): Headers =>
  isRecord(headers)
    ? Object.fromEntries(
        Object.entries(headers).map(([header, values]) => [
          header,
          Array.isArray(values) ? values.filter((value) => typeof value === 'string') : [],
        ]),
      )
    : {}

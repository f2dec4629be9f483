import { Refused, refusedBy } from './failure.ts'

/** Requests to the API server, through the local server that adds the user's credentials. */

export interface Metadata {
  readonly name: string
  readonly namespace?: string
  readonly uid: string
  readonly resourceVersion?: string
  readonly generation?: number
  readonly labels?: { readonly [key: string]: string }
  readonly creationTimestamp?: string
  readonly deletionTimestamp?: string
  readonly ownerReferences?: readonly { readonly kind: string; readonly name: string; readonly controller?: boolean }[]
}

export interface RequestOptions {
  readonly accept?: string
  readonly body?: unknown
  /** Of the body. */
  readonly type?: string
}

/** The address of a path of the API server: the page is in a folder, and so is everything that it requests. */
const urlOf = (path: string): URL => new URL(`.${path}`, location.href)

/** @throws Refused */
export async function request(
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  { accept = 'application/json', body, type = 'application/json' }: RequestOptions = {},
): Promise<unknown> {
  const content = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
  const headers = { accept, ...(body === undefined ? {} : { 'content-type': type }) }
  const response = await fetch(urlOf(path), { method, headers, ...content })
  if (response.ok) return response.json()
  throw refusedBy(response.status, await response.text())
}

export const socketUrl = (path: string): string => urlOf(path).href.replace(/^http/, 'ws')

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: unknown
}

/** The code with which the local server closes a WebSocket that the API server refused, less the status. */
const refusedCode = 4000

/**
 * Watches until `stop` is called. A WebSocket, because a browser opens only six other connections to one server.
 * @param onEnd called when the watch has ended by itself, with the refusal if it was refused
 */
export function watch(
  path: string,
  onEvent: (event: WatchEvent) => void,
  onEnd: (refused: Refused | undefined) => void,
): () => void {
  const socket = new WebSocket(socketUrl(path))
  let isStopped = false
  socket.addEventListener('message', ({ data }) => onEvent(JSON.parse(data)))
  socket.addEventListener('close', ({ code, reason }) => {
    if (!isStopped) onEnd(code > refusedCode ? new Refused(code - refusedCode, reason) : undefined)
  })
  return () => {
    isStopped = true
    socket.close()
  }
}

const group = '/apis/virtset.io/v1alpha1'

export const collectionPath = (plural: string, namespace: string | undefined): string =>
  namespace === undefined ? `${group}/${plural}` : `${group}/namespaces/${encodeURIComponent(namespace)}/${plural}`

export const objectPath = (plural: string, namespace: string, name: string): string =>
  `${collectionPath(plural, namespace)}/${encodeURIComponent(name)}`

const belowGroup = (of: string, plural: string, namespace: string, name: string, subresource: string): string =>
  `/apis/${of}/v1alpha1/namespaces/${encodeURIComponent(namespace)}/${plural}/${encodeURIComponent(name)}/${subresource}`

/** A request that is answered at once. */
export const subresourcePath = (plural: string, namespace: string, name: string, subresource: string): string =>
  belowGroup('subresources.virtset.io', plural, namespace, name, subresource)

/** A session with the guest of a VM. */
export const sessionPath = (namespace: string, name: string, subresource: string): string =>
  belowGroup('sessions.virtset.io', 'virtualmachines', namespace, name, subresource)

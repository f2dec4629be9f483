import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import fastJsonPatch from 'fast-json-patch'
import type { Operation } from 'fast-json-patch'
import type { Access } from '../runtime/access.ts'

export interface FakeObject {
  apiVersion?: string
  kind?: string
  metadata: {
    name?: string
    generateName?: string
    namespace?: string
    uid?: string
    resourceVersion?: string
    generation?: number
    creationTimestamp?: string
    deletionTimestamp?: string
    deletionGracePeriodSeconds?: number
    finalizers?: string[]
    labels?: Record<string, string>
    [key: string]: unknown
  }
  [key: string]: unknown
}

export interface FakeRequest {
  method: string
  path: string
  query: URLSearchParams
  headers: IncomingMessage['headers']
  body: unknown
}

/** A fault replaces the response, or changes it. */
export type Fault =
  | { status: number; body?: unknown; headers?: Record<string, string> }
  /** The connection is reset before the request is performed. */
  | 'reset'
  /** The request is performed, and then the connection is reset: the caller cannot know the outcome. */
  | 'reset-after'
  /** No response is ever sent. */
  | 'hang'
  /** The request is performed, or answered with this status, once this resolves. */
  | { heldUntil: Promise<unknown>; status?: number; body?: unknown }

interface HistoryEntry {
  version: number
  collection: string
  object: FakeObject
  before: FakeObject | undefined
  isGone: boolean
}

interface Watcher {
  collection: string
  namespace: string | undefined
  matches: (object: FakeObject) => boolean
  bookmarks: boolean
  /** Only newer changes are sent. */
  since: number
  response: ServerResponse
}

/** An in-memory API server for objects of any kind. It speaks HTTP and can simulate faults. */
export interface FakeApiServer {
  readonly url: string
  readonly access: Access
  /** Every request in order; a watch is a GET with `watch=true`. */
  readonly requests: FakeRequest[]
  /** The number of connections accepted so far. */
  connections(): number
  /** Chooses the fault for each request; undefined for none. */
  fault: ((request: FakeRequest) => Fault | undefined) | undefined
  /** Writes an object as another client would. `collection` is e.g. `/api/v1/pods`. */
  put(collection: string, object: FakeObject): FakeObject
  /** Removes an object, regardless of finalizers. */
  remove(collection: string, namespace: string | undefined, name: string): void
  objects(collection: string): FakeObject[]
  find(collection: string, namespace: string | undefined, name: string): FakeObject | undefined
  /** The number of open watches. */
  watchers(): number
  /** Sends a bookmark with the newest version to every watch. */
  bookmark(): void
  /** Compacts the history: a watch from an older version gets 410. */
  compact(): void
  /** Backs up the state of all objects; `restore` returns to it, as a restore of etcd does. */
  backUp(): void
  /** Versions go back with the objects. As with a real server, a watch from a newer version sends nothing. */
  restore(): void
  /** Ends every watch: cleanly, by a reset, in the middle of a line, or with an ERROR event. */
  breakWatches(how: 'end' | 'reset' | 'expire' | 'error-500' | 'half-line'): void
  /** Sends each line of a watch in pieces of this many bytes. */
  chunkBytes: number | undefined
  close(): Promise<void>
}

/**
 * The parts of `/apis/G/V/namespaces/NS/PLURAL/NAME/SUB` or `/api/V/…`; `collection` does not contain the namespace.
 */
function parsePath(
  path: string,
): { collection: string; namespace?: string; name?: string; subresource?: string } | undefined {
  const [, ...parts] = path.split('/').map(decodeURIComponent)
  const root = parts[0] === 'api' ? parts.splice(0, 2) : parts.splice(0, 3)
  let namespace: string | undefined
  if (parts[0] === 'namespaces' && parts.length > 2 && parts[2] !== 'status') [, namespace] = parts.splice(0, 2)
  const [plural, name, subresource] = parts
  if (!plural) return undefined
  return {
    collection: `/${root.join('/')}/${plural}`,
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(subresource === undefined ? {} : { subresource }),
  }
}

export async function startFakeApiServer(
  options: { now?: () => number; requestTimeoutMs?: number } = {},
): Promise<FakeApiServer> {
  const now = options.now ?? Date.now
  const store = new Map<string, FakeObject>()
  const watchers = new Set<Watcher>()
  const hanging = new Set<ServerResponse>()
  let history: HistoryEntry[] = []
  let version = 1000
  let oldest = 1000
  let backup: { readonly objects: readonly (readonly [string, FakeObject])[]; readonly version: number } | undefined
  let uids = 0
  let accepted = 0

  const keyOf = (collection: string, namespace: string | undefined, name: string) =>
    `${collection}|${namespace ?? ''}|${name}`

  const write = (watcher: Watcher, type: string, object: unknown) => {
    const bytes = Buffer.from(`${JSON.stringify({ type, object })}\n`)
    const step = fake.chunkBytes ?? bytes.length
    for (let at = 0; at < bytes.length; at += step) watcher.response.write(bytes.subarray(at, at + step))
  }

  /** As with a real server, an object that starts or stops matching the selector is sent as added or deleted. */
  const send = (watcher: Watcher, entry: HistoryEntry) => {
    const { collection, object, before, isGone } = entry
    if (watcher.collection !== collection || entry.version <= watcher.since) return
    if (watcher.namespace !== undefined && watcher.namespace !== object.metadata.namespace) return
    const was = before !== undefined && watcher.matches(before)
    const is = !isGone && watcher.matches(object)
    if (is || was) write(watcher, is ? (was ? 'MODIFIED' : 'ADDED') : 'DELETED', object)
  }

  const record = (collection: string, object: FakeObject, before: FakeObject | undefined, isGone: boolean) => {
    const entry = { version, collection, object, before, isGone }
    history.push(entry)
    for (const watcher of watchers) send(watcher, entry)
  }

  const save = (collection: string, object: FakeObject): FakeObject => {
    const key = keyOf(collection, object.metadata.namespace, object.metadata.name!)
    const before = store.get(key)
    version++
    const stored: FakeObject = structuredClone({
      ...object,
      metadata: {
        ...object.metadata,
        uid: object.metadata.uid ?? before?.metadata.uid ?? uid(++uids),
        resourceVersion: String(version),
        creationTimestamp: object.metadata.creationTimestamp ?? before?.metadata.creationTimestamp ?? stamp(now()),
      },
    })
    const isGone =
      stored.metadata.deletionTimestamp !== undefined && !stored.metadata.finalizers?.length && !isGraceful(stored)
    if (isGone) store.delete(key)
    else store.set(key, stored)
    record(collection, stored, before, isGone)
    return stored
  }

  /** A pod remains until its kubelet has terminated it; a test simulates that with `remove`. */
  const isGraceful = (object: FakeObject) => (object.metadata.deletionGracePeriodSeconds ?? 0) > 0

  const drop = (collection: string, object: FakeObject) => {
    store.delete(keyOf(collection, object.metadata.namespace, object.metadata.name!))
    version++
    const last = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } }
    record(collection, last, object, true)
  }

  const answer = (response: ServerResponse, code: number, body: unknown, headers: Record<string, string> = {}) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    response.writeHead(code, { 'content-type': 'application/json', ...headers }).end(text)
  }

  const listOrWatch = (
    request: FakeRequest,
    at: NonNullable<ReturnType<typeof parsePath>>,
    response: ServerResponse,
  ) => {
    const matches = selector(request.query)
    const from = request.query.get('resourceVersion')
    if (request.query.get('watch') === 'true') {
      const since = Number(from ?? 0)
      if (since !== 0 && since < oldest)
        return answer(response, 410, status(410, 'Expired', 'too old resource version'))
      response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
      const watcher: Watcher = {
        collection: at.collection,
        namespace: at.namespace,
        matches,
        bookmarks: request.query.get('allowWatchBookmarks') === 'true',
        since,
        response,
      }
      for (const entry of history) send(watcher, entry)
      watchers.add(watcher)
      response.on('close', () => watchers.delete(watcher))
      return undefined
    }
    if (from && from !== '0' && Number(from) > version) {
      return answer(response, 504, status(504, 'Timeout', `Too large resource version: ${from}, current: ${version}`))
    }
    const token = request.query.get('continue')
    const [offset = 0, pinned = version] = token ? token.split('-').map(Number) : []
    if (token && pinned < oldest) return answer(response, 410, status(410, 'Expired', 'the continue token is too old'))
    const all = [...store.entries()]
      .filter(([key, object]) => {
        const [collection] = key.split('|')
        return (
          collection === at.collection && (at.namespace === undefined || object.metadata.namespace === at.namespace)
        )
      })
      .map(([, object]) => object)
      .filter(matches)
    const limit = from === '0' ? 0 : Number(request.query.get('limit') ?? 0)
    const items = limit ? all.slice(offset, offset + limit) : all.slice(offset)
    const next = limit && offset + limit < all.length ? `${offset + limit}-${pinned}` : undefined
    return answer(response, 200, {
      kind: 'List',
      metadata: { resourceVersion: String(pinned), ...(next ? { continue: next } : {}) },
      items: items.map(({ kind: _kind, apiVersion: _apiVersion, ...item }) => item),
    })
  }

  const writeObject = (
    request: FakeRequest,
    at: NonNullable<ReturnType<typeof parsePath>>,
    response: ServerResponse,
  ) => {
    const isDryRun = request.query.get('dryRun') === 'All'
    if (request.method === 'POST') {
      const body = asObject(request.body)
      const name = body.metadata.name ?? `${body.metadata.generateName ?? ''}${String(++uids).padStart(5, 'x')}`
      if (store.has(keyOf(at.collection, at.namespace, name))) {
        return answer(response, 409, status(409, 'AlreadyExists', `${at.collection.slice(1)} "${name}" already exists`))
      }
      const namespace = at.namespace === undefined ? {} : { namespace: at.namespace }
      const object = { ...body, metadata: { generation: 1, ...body.metadata, ...namespace, name } }
      return answer(response, 201, isDryRun ? unstored(object) : save(at.collection, object))
    }
    const before = at.name === undefined ? undefined : store.get(keyOf(at.collection, at.namespace, at.name))
    const isApply = request.headers['content-type'] === 'application/apply-patch+yaml'
    if (isApply && (!isRecord(request.body) || request.body['kind'] === undefined)) {
      return answer(response, 400, status(400, 'BadRequest', 'invalid object type: /, Kind='))
    }
    if (!before && isApply) {
      const body = asObject(request.body)
      return answer(response, 201, save(at.collection, { ...body, metadata: { generation: 1, ...body.metadata } }))
    }
    if (!before)
      return answer(response, 404, status(404, 'NotFound', `${at.collection.slice(1)} "${at.name}" not found`))
    if (request.method === 'GET') return answer(response, 200, before)
    if (request.method === 'DELETE') {
      const deleteOptions = isRecord(request.body) ? request.body : {}
      const wanted = isRecord(deleteOptions['preconditions']) ? deleteOptions['preconditions']['uid'] : undefined
      if (wanted !== undefined && wanted !== before.metadata.uid) {
        return answer(response, 409, status(409, 'Conflict', 'the UID in the precondition does not match'))
      }
      const isPod = at.collection === '/api/v1/pods'
      const graceSeconds = Number(deleteOptions['gracePeriodSeconds'] ?? (isPod ? 30 : 0))
      const isScheduled = isPod && isRecord(before['spec']) && before['spec']['nodeName'] !== undefined
      if (before.metadata.finalizers?.length || (isScheduled && graceSeconds > 0)) {
        if (before.metadata.deletionTimestamp === undefined) {
          const marks = { deletionTimestamp: stamp(now()), deletionGracePeriodSeconds: isScheduled ? graceSeconds : 0 }
          save(at.collection, { ...before, metadata: { ...before.metadata, ...marks } })
        }
      } else drop(at.collection, before)
      return answer(response, 200, before)
    }
    const changed = request.method === 'PUT' ? asObject(request.body) : patched(before, request)
    const { resourceVersion, uid: uidOfChange } = changed.metadata
    if (resourceVersion !== undefined && resourceVersion !== before.metadata.resourceVersion) {
      return answer(response, 409, status(409, 'Conflict', 'the object has been modified'))
    }
    if (uidOfChange !== undefined && uidOfChange !== before.metadata.uid) {
      return answer(response, 409, status(409, 'Conflict', 'Precondition failed: UID in precondition'))
    }
    const merged =
      at.subresource === 'status' ? { ...before, status: changed['status'] } : withoutStatus(before, changed)
    return answer(response, 200, isDryRun ? persisted(merged) : save(at.collection, merged))
  }

  const handle = async (incoming: IncomingMessage, response: ServerResponse) => {
    const url = new URL(incoming.url ?? '/', 'http://fake')
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(Buffer.from(chunk))
    const text = Buffer.concat(chunks).toString()
    const request: FakeRequest = {
      method: incoming.method ?? 'GET',
      path: url.pathname,
      query: url.searchParams,
      headers: incoming.headers,
      body: text ? JSON.parse(text) : undefined,
    }
    fake.requests.push(request)
    const fault = fake.fault?.(request)
    if (fault === 'reset') return incoming.socket.destroy()
    if (fault === 'hang') return hanging.add(response)
    if (typeof fault === 'object') {
      if ('heldUntil' in fault) await fault.heldUntil
      const { status: code, body, headers } = { headers: undefined, ...fault }
      if (code !== undefined) return answer(response, code, body ?? status(code, 'Fault', 'injected'), headers)
    }
    if (fault === 'reset-after') response.end = () => (incoming.socket.destroy(), response)
    const at = parsePath(url.pathname)
    if (!at) return answer(response, 404, '404 page not found')
    if (request.method === 'GET' && at.name === undefined) return listOrWatch(request, at, response)
    return writeObject(request, at, response)
  }

  const server = createServer((incoming, response) => {
    handle(incoming, response).catch((error: unknown) =>
      answer(response, 500, status(500, 'InternalError', String(error))),
    )
  })
  server.on('connection', () => accepted++)
  server.keepAliveTimeout = 60_000
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const fake: FakeApiServer = {
    url,
    access: { server: url, prove: async () => ({ headers: {}, tls: {} }) },
    requests: [],
    fault: undefined,
    chunkBytes: undefined,
    connections: () => accepted,
    put: (collection, object) => save(collection, object),
    remove(collection, namespace, name) {
      const object = store.get(keyOf(collection, namespace, name))
      if (object) drop(collection, object)
    },
    objects: (collection) => [...store].filter(([key]) => key.startsWith(`${collection}|`)).map(([, object]) => object),
    find: (collection, namespace, name) => store.get(keyOf(collection, namespace, name)),
    watchers: () => watchers.size,
    bookmark() {
      for (const watcher of watchers) {
        if (watcher.bookmarks) write(watcher, 'BOOKMARK', { metadata: { resourceVersion: String(version) } })
      }
    },
    compact() {
      history = []
      version++
      oldest = version
    },
    backUp() {
      backup = { objects: [...store], version }
    },
    restore() {
      if (!backup) throw new Error('there is no backup')
      store.clear()
      for (const [key, object] of backup.objects) store.set(key, object)
      version = backup.version
      history = history.filter((entry) => entry.version <= version)
    },
    breakWatches(how) {
      for (const watcher of watchers) {
        if (how === 'reset') watcher.response.socket?.destroy()
        else {
          if (how === 'expire') write(watcher, 'ERROR', status(410, 'Expired', 'too old resource version'))
          if (how === 'error-500') write(watcher, 'ERROR', status(500, 'InternalError', 'etcd is unavailable'))
          if (how === 'half-line') watcher.response.write('{"type":"MODIFIED","object":{"metad')
          watcher.response.end()
        }
        watchers.delete(watcher)
      }
    },
    async close() {
      for (const response of hanging) response.destroy()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return fake
}

function uid(count: number): string {
  return `00000000-0000-4000-8000-${String(count).padStart(12, '0')}`
}

function stamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

function status(code: number, reason: string, message: string) {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function asObject(body: unknown): FakeObject {
  if (!isRecord(body) || !isRecord(body['metadata'])) throw new Error('the body is not an object')
  return body as FakeObject
}

/** The response to a creation in a dry run: with an identity, and without a version. */
function unstored(object: FakeObject): FakeObject {
  return { ...object, metadata: { uid: uid(0), ...object.metadata } }
}

/** The response to a dry run: not stored, but with an identity. */
function persisted(object: FakeObject): FakeObject {
  const metadata = { uid: uid(0), resourceVersion: '0', ...object.metadata }
  return { ...object, metadata }
}

/** Kinds with a status subresource ignore `status` in a write of the whole object, and count changes of `spec`. */
function withoutStatus(before: FakeObject, changed: FakeObject): FakeObject {
  const { status: _ignored, ...rest } = changed
  const isChanged = JSON.stringify(before['spec']) !== JSON.stringify(changed['spec'])
  const generation = (before.metadata.generation ?? 1) + (isChanged ? 1 : 0)
  const { uid: _uid, resourceVersion: _version, ...metadata } = rest.metadata
  const { uid: keptUid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds } = before.metadata
  const immutable = JSON.parse(
    JSON.stringify({ uid: keptUid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds }),
  )
  return {
    ...rest,
    metadata: { ...metadata, ...immutable, generation },
    ...(before['status'] === undefined ? {} : { status: before['status'] }),
  }
}

function patched(before: FakeObject, request: FakeRequest): FakeObject {
  const type = request.headers['content-type'] ?? ''
  const body = request.body
  if (type === 'application/json-patch+json' && Array.isArray(body)) {
    return fastJsonPatch.applyPatch(structuredClone(before), body as Operation[], true).newDocument
  }
  if (type === 'application/merge-patch+json') return merge(before, body) as FakeObject
  // As if there were no other field manager.
  if (type === 'application/apply-patch+yaml') return asObject(body)
  throw new Error(`patch of type ${type} is not supported by the fake`)
}

/** RFC 7386. */
function merge(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch
  const merged: Record<string, unknown> = isRecord(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key]
    else merged[key] = merge(merged[key], value)
  }
  return merged
}

/** Equality only: `a=b,c=d` over labels, or over fields such as `status.nodeName=n1`. */
function selector(query: URLSearchParams): (object: FakeObject) => boolean {
  const pairs = (text: string | null) => (text ? text.split(',').map((pair) => pair.split(/==?/)) : [])
  const labels = pairs(query.get('labelSelector'))
  const fields = pairs(query.get('fieldSelector'))
  const field = (object: FakeObject, path: string) =>
    path.split('.').reduce<unknown>((value, key) => (isRecord(value) ? value[key] : undefined), object) ?? ''
  return (object) =>
    labels.every(([key = '', value]) =>
      value === undefined ? key in (object.metadata.labels ?? {}) : object.metadata.labels?.[key] === value,
    ) && fields.every(([path = '', value]) => field(object, path) === value)
}

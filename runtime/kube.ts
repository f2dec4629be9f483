import { isDeepStrictEqual } from 'node:util'
import { Agent } from 'undici'
import type { Dispatcher } from 'undici'
import type { Access, Proof } from './access.ts'
import { prune } from '../api/prune.ts'
import { isRecord } from '../api/schema.ts'
import { statusOf } from '../api/received-status.ts'
import { ApiError, ApiUnreachable } from './api-error.ts'
import { systemClock } from './clock.ts'
import type { Clock } from './clock.ts'
import { jsonLines } from './json-lines.ts'
import { listParts } from './list-parts.ts'
import { parserOf, type Parts } from './partial-json.ts'
import { apiVersionOf, pathOf } from './resource.ts'
import type { KubeObject, ObjectRef, Persisted, Resource } from './resource.ts'
import { withRetries } from './retry.ts'

export interface ListOptions {
  /** Absent: all namespaces. */
  readonly namespace?: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
  /** Absent: the newest, read from etcd; '0': any version that the API server has cached. */
  readonly resourceVersion?: string
  readonly limit?: number
  readonly continue?: string
  readonly signal?: AbortSignal
}

interface ListEachOptions extends ListOptions {
  /**
   * After about so many bytes, the list ends: without the objects that are not complete by then, without a version, and
   * without its connection.
   */
  readonly mostBytes?: number
}

export interface List<T extends KubeObject> extends ListEnd {
  readonly items: readonly Persisted<T>[]
}

/** What a list has besides its objects. */
interface ListEnd {
  readonly resourceVersion: string
  readonly continue?: string
}

interface WriteOptions {
  /** e.g. `status`. */
  readonly subresource?: string
  /** The API server processes the request, admission included, but does not store the result. */
  readonly dryRun?: boolean
  readonly signal?: AbortSignal
}

type CreateOptions = Omit<WriteOptions, 'subresource'>

/**
 * The type of the patch is always named: custom resources do not support the strategic merge that kubectl defaults to.
 */
type Patch =
  | { readonly type: 'merge'; readonly body: object }
  /** The operations, or their JSON, which takes a tenth of the memory while it waits. */
  | { readonly type: 'json'; readonly body: readonly object[] | Buffer }
  | { readonly type: 'apply'; readonly body: object; readonly fieldManager: string; readonly force?: boolean }

export interface DeleteOptions {
  /** Delete this one, and not another of the same name. */
  readonly uid?: string
  readonly gracePeriodSeconds?: number
  readonly dryRun?: boolean
  readonly signal?: AbortSignal
}

export interface WatchOptions extends Omit<ListOptions, 'limit' | 'continue' | 'signal'> {
  readonly timeoutSeconds: number
  readonly signal: AbortSignal
}

/** A line of a watch, as the API server sent it. */
interface WatchEvent {
  readonly type: string
  readonly object: unknown
}

/**
 * Requests to the API server as raw JSON, over a pool of keep-alive connections; watches have a pool of their own, so
 * that they do not occupy it. A refusal is thrown as ApiError, a missing or invalid response as ApiUnreachable. A 429,
 * and a 5xx with Retry-After, is retried after that time, up to four times; a read is retried once when the connection
 * broke.
 */
export interface KubeClient {
  get<T extends KubeObject>(of: Resource<T>, ref: ObjectRef, options?: { signal?: AbortSignal }): Promise<Persisted<T>>
  list<T extends KubeObject>(of: Resource<T>, options?: ListOptions): Promise<List<T>>
  /** The same, with one object in memory at a time. If it throws, `take` may have been called for some of them. */
  listEach<T extends KubeObject>(
    of: Resource<T>,
    options: ListEachOptions,
    take: (object: Persisted<T>) => void,
  ): Promise<ListEnd>
  create<T extends KubeObject>(of: Resource<T>, object: T, options?: CreateOptions): Promise<Persisted<T>>
  /** The same, for a caller that does not read what is stored: the response, larger than the request, is not parsed. */
  createUnread<T extends KubeObject>(of: Resource<T>, object: T, options?: CreateOptions): Promise<void>
  /** Replaces the object; with `metadata.resourceVersion` only if it has not changed since. */
  update<T extends KubeObject>(of: Resource<T>, object: Persisted<T>, options?: WriteOptions): Promise<Persisted<T>>
  patch<T extends KubeObject>(
    of: Resource<T>,
    ref: ObjectRef,
    patch: Patch,
    options?: WriteOptions,
  ): Promise<Persisted<T>>
  /** Resolves when the API server has accepted; the object may live on until its finalizers and grace period end. */
  delete<T extends KubeObject>(of: Resource<T>, ref: ObjectRef, options?: DeleteOptions): Promise<void>
  /** Ends when the API server ends it; throws when it breaks. */
  watch<T extends KubeObject>(of: Resource<T>, options: WatchOptions): AsyncGenerator<WatchEvent>
  /**
   * Any other request, such as a SubjectAccessReview. `path` can have a query. With `read` false, the response is not
   * parsed, and the result is undefined.
   */
  request(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: object,
    options?: { readonly signal?: AbortSignal; readonly read?: Parts },
  ): Promise<unknown>
  /** Ends watches at once, and waits for other requests. */
  close(): Promise<void>
}

interface KubeOptions {
  readonly access: Access
  /** Such as `virtset-controller`; appears in the audit log and as field manager of writes. */
  readonly userAgent: string
  readonly clock?: Clock
  /** Besides one for each watch. */
  readonly connections?: number
  /** The longest time without a byte of the response. */
  readonly timeoutMs?: number
  /** False: refusals are thrown at once, and the caller retries. */
  readonly retries?: boolean
}

const contentTypes = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  apply: 'application/apply-patch+yaml',
} as const

/** The API server limits a request to 60 s, but responds within 34 s when a webhook is slow. */
const defaultTimeoutMs = 35_000
const defaultConnections = 8
/** A new connection costs both sides as much as several requests. The API server closes idle ones after 90 s. */
const idleMs = 30_000

const created = 201

interface Pools {
  readonly tls: Proof['tls']
  readonly requests: Agent
  readonly watches: Agent
}

interface Call {
  readonly method: Dispatcher.HttpMethod
  readonly path: string
  readonly body?: object
  readonly contentType?: string
  readonly signal?: AbortSignal | undefined
}

export function createKubeClient(options: KubeOptions): KubeClient {
  const { access, userAgent, clock = systemClock, timeoutMs = defaultTimeoutMs } = options
  const { connections = defaultConnections, retries = true } = options
  const { origin, pathname } = new URL(access.server)
  const folder = pathname.replace(/\/$/, '')
  let pools: Pools | undefined

  /** A renewed CA or client certificate requires new connections; those in use end by themselves. */
  const poolsFor = ({ tls }: Proof): Pools => {
    if (pools !== undefined && isDeepStrictEqual(pools.tls, tls)) return pools
    const old = pools
    const connect = { ...tls, keepAlive: true, keepAliveInitialDelay: 30_000 }
    const timeouts = { headersTimeout: timeoutMs, bodyTimeout: timeoutMs, keepAliveTimeout: idleMs }
    pools = {
      tls,
      // HTTP/2 leaked memory in Node's watch clients in the past.
      requests: new Agent({ allowH2: false, connections, connect, ...timeouts }),
      watches: new Agent({ allowH2: false, connect, headersTimeout: timeoutMs, bodyTimeout: 0 }),
    }
    if (old) void closePools(old)
    return pools
  }

  const send = async (call: Call, pool: 'requests' | 'watches'): Promise<Dispatcher.ResponseData> => {
    const proof = await access.prove()
    return poolsFor(proof)[pool].request({
      origin,
      path: folder + call.path,
      method: call.method,
      headers: {
        accept: 'application/json',
        'user-agent': userAgent,
        ...(call.body ? { 'content-type': call.contentType ?? 'application/json' } : {}),
        ...proof.headers,
      },
      body: bytesToSend(call),
      signal: call.signal ?? null,
    })
  }

  const request = async (call: Call, read: Parts = true): Promise<unknown> => {
    const name = nameOf(call)
    // To its end even if it is not parsed, so that the connection can be used again.
    const json = await bytesOf(await respond(call, name), name, call.signal)
    return read === false ? undefined : parseJson(json, read, name)
  }

  const respond = (call: Call, name: string): Promise<Dispatcher.ResponseData> =>
    retries ? withRetries(() => respondOnce(call, name), clock, call.signal) : respondOnce(call, name)

  const respondOnce = async (call: Call, name: string): Promise<Dispatcher.ResponseData> => {
    const response = await sendAgainIfBroken(call, name)
    if (response.statusCode < 300) return response
    throw await refusalOf(response, name, call.signal)
  }

  /** A keep-alive connection may have been closed while idle; only reads are safe to repeat. */
  const sendAgainIfBroken = async (call: Call, name: string): Promise<Dispatcher.ResponseData> => {
    try {
      return await send(call, 'requests')
    } catch (error) {
      if (call.method !== 'GET' || call.signal?.aborted) return unreachable(name, error, call.signal)
      return send(call, 'requests').catch((again: unknown) => unreachable(name, again, call.signal))
    }
  }

  const one = async <T extends KubeObject>(of: Resource<T>, call: Call, isNotStored = false): Promise<Persisted<T>> => {
    const received = shallow(await request(call, of.read))
    const value = isNotStored ? withVersion(received) : received
    if (!of.accepts(value)) throw new ApiUnreachable(`${nameOf(call)}: the response is not of kind ${of.kind}`)
    return value
  }

  const creation = <T extends KubeObject>(of: Resource<T>, object: T, { signal, dryRun }: CreateOptions = {}): Call => {
    const { namespace } = object.metadata
    const path = `${pathOf(of, { namespace })}${query(writeQuery(userAgent, dryRun))}`
    return { method: 'POST', path, body: withKind(of, object), signal }
  }

  return {
    get: (of, ref, { signal } = {}) => one(of, { method: 'GET', path: pathOf(of, ref), signal }),

    async list(of, { signal, namespace, ...rest } = {}) {
      const path = `${pathOf(of, { namespace })}${query({ ...rest })}`
      return readList(of, await request({ method: 'GET', path, signal }, { '*': true, items: of.read }), path)
    },

    async listEach(of, { signal, namespace, mostBytes = Infinity, ...rest }, take) {
      const path = `${pathOf(of, { namespace })}${query({ ...rest })}`
      const name = `GET ${path}`
      const response = await respond({ method: 'GET', path, signal }, name)
      let leftBytes = mostBytes
      async function* beginning() {
        for await (const chunk of response.body) {
          leftBytes -= chunk.length
          if (leftBytes < 0) return
          yield chunk
        }
      }
      try {
        for await (const part of parsed(listParts(beginning(), parserOf(of.read)), name, signal)) {
          if ('list' in part) return endOf(part.list, path)
          take(itemOf(of, part.item, path))
        }
      } catch (error) {
        if (leftBytes < 0) return { resourceVersion: '' }
        throw error
      }
      throw new ApiUnreachable(`${name}: the response has no end`)
    },

    create: (of, object, options) => one(of, creation(of, object, options), options?.dryRun),

    async createUnread(of, object, options) {
      const call = creation(of, object, options)
      const name = nameOf(call)
      const response = await respond(call, name)
      await bytesOf(response, name, call.signal)
      if (response.statusCode !== created)
        throw new ApiUnreachable(`${name}: the response has the status ${response.statusCode}`)
    },

    update: (of, object, { signal, subresource, dryRun } = {}) => {
      const path = `${pathOf(of, { ...refTo(object), subresource })}${query(writeQuery(userAgent, dryRun))}`
      return one(of, { method: 'PUT', path, body: withKind(of, object), signal })
    },

    patch: (of, ref, patch, { signal, subresource, dryRun } = {}) => {
      const manager = patch.type === 'apply' ? patch.fieldManager : userAgent
      const force = patch.type === 'apply' && patch.force ? { force: 'true' } : {}
      const path = `${pathOf(of, { ...ref, subresource })}${query({ ...writeQuery(manager, dryRun), ...force })}`
      return one(of, { method: 'PATCH', path, body: patch.body, contentType: contentTypes[patch.type], signal })
    },

    async delete(of, ref, { signal, uid, dryRun, ...rest } = {}) {
      const body = {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        ...rest,
        ...(uid === undefined ? {} : { preconditions: { uid } }),
        ...(dryRun ? { dryRun: ['All'] } : {}),
      }
      await request({ method: 'DELETE', path: pathOf(of, ref), body, signal }, false)
    },

    async *watch(of, { namespace, signal, ...rest }) {
      const path = `${pathOf(of, { namespace })}${query({ ...rest, watch: 'true', allowWatchBookmarks: 'true' })}`
      const name = `WATCH ${path}`
      const call: Call = { method: 'GET', path, signal }
      const response = await send(call, 'watches').catch((error: unknown) => unreachable(name, error, signal))
      if (response.statusCode !== 200) throw await refusalOf(response, name, signal)
      const lines = jsonLines(response.body, parserOf({ type: true, object: readOfEvent(of.read) }))
      for await (const line of parsed(lines, name, signal)) yield watchEvent(line, name)
    },

    request: (method, path, body, { signal, read } = {}) =>
      request({ method, path, ...(body ? { body } : {}), signal }, read),

    async close() {
      const old = pools
      pools = undefined
      await Promise.all([old?.requests.close(), old?.watches.destroy()])
    },
  }
}

/** What a dry run creates has no version. */
const withVersion = (value: unknown): unknown =>
  isRecord(value) && isRecord(value['metadata'])
    ? { ...value, metadata: { resourceVersion: '', ...value['metadata'] } }
    : value

/** Waits for the requests in progress, watches included: those end within ten minutes. */
async function closePools(pools: Pools): Promise<void> {
  await Promise.all([pools.requests.close(), pools.watches.close()])
}

function refTo<T extends KubeObject>(object: Persisted<T>): ObjectRef {
  const { namespace, name } = object.metadata
  return namespace === undefined ? { name } : { namespace, name }
}

function bytesToSend({ body }: Call): Buffer | string | null {
  if (body === undefined || body instanceof Buffer) return body ?? null
  return JSON.stringify(body)
}

const nameOf = ({ method, path }: Call): string => `${method} ${path}`

function unreachable(request: string, error: unknown, signal: AbortSignal | undefined): never {
  if (signal?.aborted) throw error
  throw new ApiUnreachable(request, { cause: error })
}

async function refusalOf(
  response: Dispatcher.ResponseData,
  request: string,
  signal: AbortSignal | undefined,
): Promise<ApiError> {
  const text = (await bytesOf(response, request, signal)).toString('utf8')
  const status = statusOf(response.statusCode, jsonOrText(text))
  return new ApiError(request, status, retryAfter(response.headers['retry-after']))
}

/** The same values; a response that breaks or cannot be parsed is an ApiUnreachable. */
async function* parsed<T>(
  values: AsyncIterable<T>,
  request: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<T> {
  try {
    for await (const value of values) yield value
  } catch (error) {
    unreachable(request, error, signal)
  }
}

async function bytesOf(
  { body }: Dispatcher.ResponseData,
  request: string,
  signal: AbortSignal | undefined,
): Promise<Buffer> {
  return Buffer.from(await body.arrayBuffer().catch((error: unknown) => unreachable(request, error, signal)))
}

/** Seconds, as Kubernetes writes them; a date, which HTTP also allows, is ignored. */
function retryAfter(header: string | string[] | undefined): number | undefined {
  const text = Array.isArray(header) ? header[0] : header
  if (text === undefined) return undefined
  const seconds = Number(text)
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined
}

function writeQuery(fieldManager: string, dryRun: boolean | undefined): Record<string, string> {
  return dryRun ? { fieldManager, dryRun: 'All' } : { fieldManager }
}

function query(parameters: Readonly<Record<string, string | number | undefined>>): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) search.set(name, String(value))
  return search.size ? `?${search.toString()}` : ''
}

/**
 * More levels than any valid object has, and than validation accepts, so it still refuses a pruned object. The API
 * server accepts 10,000; code that walks so deep a value would overflow the stack.
 */
const mostLevels = 200

const shallow = (object: unknown): unknown => prune(object, mostLevels)

function withKind<T extends KubeObject>(of: Resource<T>, object: T): T {
  return { ...object, apiVersion: apiVersionOf(of), kind: of.kind }
}

function parseJson(json: Buffer, read: Parts, request: string): unknown {
  try {
    return parserOf(read)(json)
  } catch (error) {
    throw new ApiUnreachable(`${request}: the response is not JSON`, { cause: error })
  }
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function readList<T extends KubeObject>(of: Resource<T>, value: unknown, path: string): List<T> {
  const end = endOf(value, path)
  if (!isRecord(value) || !Array.isArray(value['items'])) throw notList(path)
  return { items: value['items'].map((item: unknown) => itemOf(of, item, path)), ...end }
}

/**
 * The items of a list of a built-in kind have no apiVersion and kind; they are added, so that lists and watches agree.
 */
function itemOf<T extends KubeObject>(of: Resource<T>, item: unknown, path: string): Persisted<T> {
  const object: unknown = isRecord(item) ? shallow({ apiVersion: apiVersionOf(of), kind: of.kind, ...item }) : item
  if (!of.accepts(object)) throw new ApiUnreachable(`GET ${path}: an item of the list is not of kind ${of.kind}`)
  return object
}

function endOf(list: unknown, path: string): ListEnd {
  const metadata = isRecord(list) ? list['metadata'] : undefined
  if (!isRecord(metadata)) throw notList(path)
  const { resourceVersion, continue: next } = metadata
  return {
    resourceVersion: typeof resourceVersion === 'string' ? resourceVersion : '',
    ...(typeof next === 'string' && next ? { continue: next } : {}),
  }
}

const notList = (path: string) => new ApiUnreachable(`GET ${path}: the response is not a list`)

/** The object of an ERROR event is a Status. */
const readOfEvent = (read: Resource<KubeObject>['read']): Parts =>
  read === true ? true : { code: true, reason: true, message: true, ...read }

function watchEvent(line: unknown, request: string): WatchEvent {
  if (!isRecord(line) || typeof line['type'] !== 'string')
    throw new ApiUnreachable(`${request}: a line is not an event`)
  return { type: line['type'], object: shallow(line['object']) }
}

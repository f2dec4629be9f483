import { isDnsSubdomain } from '../../api/label.ts'
import { isRecord } from '../../api/schema.ts'
import type { Status } from '../admission/request.ts'
import { documents, groupVersion } from './discovery.ts'
import { isSession, parseSession, sessionSubresources, type SessionRequest } from './session-request.ts'

const verbs = ['start', 'stop', 'restart'] as const
export type Verb = (typeof verbs)[number]

/** A request to start, stop or restart the VM of a config. */
export interface PowerRequest {
  readonly verb: Verb
  readonly namespace: string
  readonly name: string
  readonly isDryRun: boolean
  /** `start` waits until the previous VM is gone; without it, a start is refused while that VM is stopping. */
  readonly isWaiting: boolean
  readonly gracePeriodSeconds?: number
}

export type Route =
  | { readonly kind: 'document'; readonly document: object }
  | { readonly kind: 'power'; readonly request: PowerRequest }
  | { readonly kind: 'session'; readonly request: SessionRequest }
  | { readonly kind: 'refused'; readonly status: Status }

/** All methods do the same and require the same permission. */
const methods = ['GET', 'POST', 'PUT']

/** Kubernetes' limit of a pod's grace period. */
const longestGraceSeconds = 2 ** 31 - 1

/**
 * A path has at most 650 characters and the queries of kubectl and kubectl-vm 200, but a user can send 124 KiB, which
 * take milliseconds to parse.
 */
const longestUrl = 2048

/**
 * The URL without what makes it too long, of which `route` refuses the rest. It is a copy, because a slice would retain
 * the whole.
 */
export const boundedUrl = (url: string): string =>
  url.length <= longestUrl ? url : Buffer.from(url.slice(0, longestUrl + 1)).toString()

/** The response to a request for a discovery document. Its query is not read. */
export function discover(method: string, url: string): Route | undefined {
  const end = url.indexOf('?')
  const path = end === -1 ? url : url.slice(0, end)
  const document = documents.get(path.endsWith('/') ? path.slice(0, -1) : path)
  if (document === undefined) return undefined
  return method === 'GET' ? { kind: 'document', document } : notAllowed(method, 'GET')
}

/** @param url path and query @param body empty if the request has none */
export function route(method: string, url: string, body: string): Route {
  const discovered = discover(method, url)
  if (discovered !== undefined) return discovered
  if (url.length > longestUrl) {
    return refused(414, 'RequestURITooLong', `the URL must have at most ${longestUrl} characters`)
  }
  const { pathname, searchParams } = new URL(url, 'https://api')
  // The API server has authorized and audited the path as it was sent, dot segments included.
  if (pathname !== url.split('?', 1)[0]) return notFound(pathname)
  const [, apis, group, version, namespaces, namespace = '', plural, name = '', ...words] = pathname
    .split('/')
    .map(decoded)
  if (apis !== 'apis' || `${group}/${version}` !== groupVersion || namespaces !== 'namespaces')
    return notFound(pathname)
  if (!isDnsSubdomain(namespace) || !isDnsSubdomain(name)) return notFound(pathname)
  const [verb = '', ...rest] = words
  if (plural === 'virtualmachines' || (plural === 'virtualmachineconfigs' && isSession(verb))) {
    return sessionRoute(method, { resource: plural, namespace, name }, words.join('/'), searchParams)
  }
  if (plural !== 'virtualmachineconfigs' || rest.length > 0) return notFound(pathname)
  const known = verbs.find((candidate) => candidate === verb)
  if (known === undefined) {
    const valid = [...verbs, ...sessionSubresources].join(', ')
    return refused(404, 'NotFound', `subresource "${verb}" does not exist; valid: ${valid}`)
  }
  if (!methods.includes(method)) return notAllowed(method, methods.join(', '))
  const options = parseOptions(searchParams, body)
  if ('problem' in options) return refused(400, 'BadRequest', options.problem)
  return { kind: 'power', request: { verb: known, namespace, name, ...options } }
}

function sessionRoute(
  method: string,
  vm: Pick<SessionRequest, 'resource' | 'namespace' | 'name'>,
  subresource: string,
  query: URLSearchParams,
): Route {
  const parsed = parseSession(vm, subresource, query)
  if ('refused' in parsed) return { kind: 'refused', status: parsed.refused }
  return method === 'GET' ? { kind: 'session', request: parsed } : notAllowed(method, 'GET')
}

type Options = Pick<PowerRequest, 'isDryRun' | 'isWaiting' | 'gracePeriodSeconds'>

/**
 * Options are read from the query, then from the body: an object such as DeleteOptions, whose other members are
 * ignored.
 */
function parseOptions(query: URLSearchParams, text: string): Options | { readonly problem: string } {
  const body = parseBody(text)
  if ('problem' in body) return body
  const dryRun = query.has('dryRun') ? query.getAll('dryRun') : (body.value['dryRun'] ?? [])
  if (!Array.isArray(dryRun) || dryRun.some((item) => item !== 'All')) return { problem: 'dryRun: must be All' }
  const wait = query.get('wait')
  if (wait !== null && !['', 'true', 'false'].includes(wait)) return { problem: 'wait: must be true or false' }
  const common = { isDryRun: dryRun.length > 0, isWaiting: wait !== null && wait !== 'false' }
  const grace = query.get('gracePeriodSeconds') ?? body.value['gracePeriodSeconds'] ?? null
  if (grace === null) return common
  const gracePeriodSeconds = typeof grace === 'string' && /^\d{1,10}$/.test(grace) ? Number(grace) : grace
  if (typeof gracePeriodSeconds !== 'number' || !Number.isInteger(gracePeriodSeconds) || gracePeriodSeconds < 0) {
    return { problem: 'gracePeriodSeconds: must be a whole number of seconds, 0 or more' }
  }
  if (gracePeriodSeconds > longestGraceSeconds) {
    return { problem: `gracePeriodSeconds: must be at most ${longestGraceSeconds}` }
  }
  return { ...common, gracePeriodSeconds }
}

function parseBody(
  text: string,
): { readonly value: { readonly [key: string]: unknown } } | { readonly problem: string } {
  if (text.trim() === '') return { value: {} }
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? { value } : { problem: 'the body must be a JSON object, or empty' }
  } catch {
    return { problem: 'the body is not valid JSON' }
  }
}

const refused = (code: number, reason: string, message: string): Route => ({
  kind: 'refused',
  status: { code, reason, message },
})

const notFound = (path: string): Route => refused(404, 'NotFound', `${path} does not exist`)

const notAllowed = (method: string, allowed: string): Route =>
  refused(405, 'MethodNotAllowed', `method ${method} is not allowed; allowed: ${allowed}`)

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

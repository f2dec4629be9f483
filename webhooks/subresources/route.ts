import { isDnsSubdomain } from '../../api/label.ts'
import { isRecord } from '../../api/schema.ts'
import type { Status } from '../admission/request.ts'
import { version } from '../discovery.ts'
import { parseSession, type SessionRequest } from './session-request.ts'
import { firstWord, type PowerVerb, type UserApi } from './user-api.ts'

interface PowerTarget {
  readonly verb: PowerVerb
  readonly namespace: string
  readonly name: string
}

/** A request to start, stop or restart the VM of a config. */
export interface PowerRequest extends PowerTarget {
  readonly isDryRun: boolean
  /** `start` waits until the previous VM is gone; without it, a start is refused while that VM is stopping. */
  readonly isWaiting: boolean
  readonly gracePeriodSeconds?: number
}

/** What the head of a request asks for. */
export type Route =
  | { readonly kind: 'document'; readonly document: object }
  /** Options can be in the body as well. */
  | { readonly kind: 'power'; readonly target: PowerTarget; readonly query: URLSearchParams }
  | { readonly kind: 'session'; readonly request: SessionRequest }
  | Refused

interface Refused {
  readonly kind: 'refused'
  readonly status: Status
}

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
function discover({ documents }: UserApi, method: string, url: string): Route | undefined {
  const end = url.indexOf('?')
  const path = end === -1 ? url : url.slice(0, end)
  const document = documents.get(path.endsWith('/') ? path.slice(0, -1) : path)
  if (document === undefined) return undefined
  return method === 'GET' ? { kind: 'document', document } : notAllowed(method, 'GET')
}

/** @param url path and query */
export function route(api: UserApi, method: string, url: string): Route {
  const discovered = discover(api, method, url)
  if (discovered !== undefined) return discovered
  if (url.length > longestUrl) {
    return refused(414, 'RequestURITooLong', `the URL must have at most ${longestUrl} characters`)
  }
  const { pathname, searchParams } = new URL(url, 'https://api')
  // The API server has authorized and audited the path as it was sent, dot segments included.
  if (pathname !== url.split('?', 1)[0]) return notFound(pathname)
  const [, apis, group, ofVersion, namespaces, namespace = '', plural, name = '', ...words] = pathname
    .split('/')
    .map(decoded)
  if (apis !== 'apis' || group !== api.group || ofVersion !== version || namespaces !== 'namespaces')
    return notFound(pathname)
  if (!isDnsSubdomain(namespace) || !isDnsSubdomain(name)) return notFound(pathname)
  if (plural !== 'virtualmachines' && plural !== 'virtualmachineconfigs') return notFound(pathname)
  const subresource = words.join('/')
  if (api.sessions.some((session) => firstWord(session) === words[0])) {
    const request = parseSession({ resource: plural, namespace, name }, subresource, searchParams)
    if (request === undefined) return noSubresource(api, plural, subresource)
    if ('refused' in request) return { kind: 'refused', status: request.refused }
    return method === 'GET' ? { kind: 'session', request } : notAllowed(method, 'GET')
  }
  const verb = api.power.find((candidate) => candidate === subresource)
  if (plural !== 'virtualmachineconfigs' || verb === undefined) return noSubresource(api, plural, subresource)
  if (!methods.includes(method)) return notAllowed(method, methods.join(', '))
  return { kind: 'power', target: { verb, namespace, name }, query: searchParams }
}

const noSubresource = ({ power, sessions }: UserApi, plural: string, subresource: string): Refused => {
  const valid = [...(plural === 'virtualmachineconfigs' ? power : []), ...sessions].join(', ')
  return refused(404, 'NotFound', `subresource "${subresource}" does not exist; valid: ${valid}`)
}

/** @param body empty if the request has none */
export function powerRequest(
  { target, query }: Extract<Route, { readonly kind: 'power' }>,
  body: string,
): PowerRequest | { readonly refused: Status } {
  const options = parseOptions(query, body)
  if ('problem' in options) return { refused: { code: 400, reason: 'BadRequest', message: options.problem } }
  return { ...target, ...options }
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

const refused = (code: number, reason: string, message: string): Refused => ({
  kind: 'refused',
  status: { code, reason, message },
})

const notFound = (path: string): Refused => refused(404, 'NotFound', `${path} does not exist`)

const notAllowed = (method: string, allowed: string): Refused =>
  refused(405, 'MethodNotAllowed', `method ${method} is not allowed; allowed: ${allowed}`)

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

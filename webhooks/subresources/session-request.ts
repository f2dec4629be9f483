import { consolePastBytes, isPort, parsePosition, type SessionTarget } from '../../runtime/session-api.ts'
import type { Access } from '../admission/permission.ts'
import type { Status } from '../admission/request.ts'
import { sessionsApi, subresourcesApi } from './user-api.ts'

/** A request for a session with the guest of a VM. */
export interface SessionRequest {
  /**
   * console, vnc, portforward: a WebSocket. log: a plain response with the output of the console. screenshot: a PNG.
   * metrics: JSON.
   */
  readonly kind: 'console' | 'vnc' | 'portforward' | 'log' | 'screenshot' | 'metrics'
  /** Whether the name is that of a VM, or of the config that controls it. */
  readonly resource: 'virtualmachines' | 'virtualmachineconfigs'
  readonly namespace: string
  readonly name: string
  readonly target: SessionTarget
}

type OfVm = Pick<SessionRequest, 'resource' | 'namespace' | 'name'>

/** Sessions without options, by subresource. */
const plain: ReadonlyMap<string, Pick<SessionRequest, 'kind' | 'target'>> = new Map([
  ['attach/vnc', { kind: 'vnc', target: { kind: 'vnc' } }],
  ['screenshot', { kind: 'screenshot', target: { kind: 'screenshot' } }],
  ['metrics', { kind: 'metrics', target: { kind: 'metrics' } }],
])
const consoles: { readonly [subresource: string]: 'console' | 'log' } = { 'attach/console': 'console', log: 'log' }

/**
 * @param subresource the path below the VM
 * @returns undefined if there is none of this name
 */
export function parseSession(
  vm: OfVm,
  subresource: string,
  query: URLSearchParams,
): SessionRequest | { readonly refused: Status } | undefined {
  const known = plain.get(subresource)
  if (known !== undefined) return { ...vm, ...known }
  const [word, port, ...rest] = subresource.split('/')
  if (word === 'portforward' && rest.length === 0) return portRequest(vm, port ?? '')
  const kind = Object.hasOwn(consoles, subresource) ? consoles[subresource] : undefined
  return kind === undefined ? undefined : consoleRequest(vm, kind, query)
}

function portRequest(vm: OfVm, text: string): SessionRequest | { readonly refused: Status } {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (!isPort(port)) return refused(400, 'BadRequest', 'portforward/PORT: must be a port from 1 to 65535')
  return { ...vm, kind: 'portforward', target: { kind: 'tcp', port } }
}

function consoleRequest(
  vm: OfVm,
  kind: 'console' | 'log',
  query: URLSearchParams,
): SessionRequest | { readonly refused: Status } {
  const [tail, after, follow] = ['tailBytes', 'after', 'follow'].map((name) => query.get(name) ?? undefined)
  if (tail !== undefined && !/^\d{1,9}$/.test(tail)) {
    return refused(400, 'BadRequest', 'tailBytes: must be a whole number of bytes, 0 or more')
  }
  const position = after === undefined ? undefined : parsePosition(after)
  if (after !== undefined && position === undefined) {
    return refused(400, 'BadRequest', 'after: must be a position from the header virtset-position')
  }
  if (follow !== undefined && !['true', 'false'].includes(follow)) {
    return refused(400, 'BadRequest', 'follow: must be true or false')
  }
  const start = position === undefined ? { tailBytes: Number(tail ?? consolePastBytes) } : { after: position }
  if (kind === 'console') return { ...vm, kind, target: { kind: 'console', ...start, isFollowing: true } }
  return { ...vm, kind, target: { kind: 'console', ...start, isFollowing: follow === 'true', isEndMarked: true } }
}

/**
 * What a user must be allowed to do. The API server has authorized only a `get` of the first word of the subresource,
 * which covers several kinds of sessions, and users with read access to everything have that. So a session that can
 * change the guest requires `update` of a subresource of its own.
 */
export const accessOfSession = ({ kind, resource, namespace, name }: SessionRequest): Access => ({
  verb: isReading(kind) ? 'get' : 'update',
  group: (['screenshot', 'metrics'].includes(kind) ? subresourcesApi : sessionsApi).group,
  resource,
  subresource: kind,
  namespace,
  name,
})

/** Whether a session only reads, and is a plain response. */
export const isReading = (kind: SessionRequest['kind']): boolean => ['log', 'screenshot', 'metrics'].includes(kind)

const refused = (code: number, reason: string, message: string) => ({ refused: { code, reason, message } })

import { consolePastBytes, parsePosition, type SessionTarget } from '../../runtime/session-api.ts'
import type { Access } from '../admission/permission.ts'
import type { Status } from '../admission/request.ts'
import { group } from './discovery.ts'

/** A request for a session with the guest of a VM. */
export interface SessionRequest {
  /** console: a WebSocket. log: a plain response with the output of the console. */
  readonly kind: 'console' | 'log'
  readonly namespace: string
  readonly name: string
  readonly target: SessionTarget
}

/** The subresources of `virtualmachines`, without the path of a port. */
const kinds: { readonly [subresource: string]: SessionRequest['kind'] } = { 'attach/console': 'console', log: 'log' }

/** @param subresource the path below the VM */
export function parseSession(
  vm: Pick<SessionRequest, 'namespace' | 'name'>,
  subresource: string,
  query: URLSearchParams,
): SessionRequest | { readonly refused: Status } {
  const kind = Object.hasOwn(kinds, subresource) ? kinds[subresource] : undefined
  if (kind === undefined) {
    const valid = Object.keys(kinds).join(', ')
    return refused(404, 'NotFound', `subresource "${subresource}" does not exist; valid: ${valid}`)
  }
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
  return { ...vm, kind, target: { kind: 'console', ...start, isFollowing: kind !== 'log' || follow === 'true' } }
}

/**
 * What a user must be allowed to do. The API server has authorized only a `get` of the first word of the subresource,
 * which covers several kinds of sessions, and users with read access to everything have that. So a session that can
 * change the guest requires `update` of a subresource of its own.
 */
export const accessOfSession = ({ kind, namespace, name }: SessionRequest): Access => ({
  verb: kind === 'log' ? 'get' : 'update',
  group,
  resource: 'virtualmachines',
  subresource: kind,
  namespace,
  name,
})

const refused = (code: number, reason: string, message: string) => ({ refused: { code, reason, message } })

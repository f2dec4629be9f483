import { createBuckets, type Rate } from '../../runtime/bucket.ts'
import type { Clock } from '../../runtime/clock.ts'
import { createFairLimit } from '../../runtime/fair-limit.ts'
import { poolOf, sessionsPerVm, type SessionPool } from '../../runtime/session-api.ts'
import { createShares } from '../../runtime/shares.ts'
import type { User } from '../admission/request.ts'
import { SessionRefusal } from './session-client.ts'
import type { SessionRequest } from './session-request.ts'
import { tenantOf } from './tenant.ts'

/** The most sessions of a replica: in total, and of one user, of a namespace, of one user in it, and of a VM. */
export interface SessionLimits {
  readonly all: number
  readonly perUser: number
  readonly perNamespace: number
  readonly perMember: number
  readonly perVm: { readonly [pool in SessionPool]: number }
}

/** A session takes 100 to 200 KiB. One user, who can have all those of a VM, leaves some of a namespace to the others. */
const defaultLimits: SessionLimits = { all: 256, perUser: 64, perNamespace: 64, perMember: 48, perVm: sessionsPerVm }

/**
 * How fast a user, and a namespace, can open sessions. Opening one takes a request to the API server and a TLS
 * handshake with a handler. A browser that reaches a guest through `port-forward` opens a few dozen at once.
 */
const attempts: { readonly [owner in 'user' | 'namespace']: Rate } = {
  user: { perSecond: 8, burst: 64 },
  namespace: { perSecond: 16, burst: 128 },
}
const mostKeys = 4096

/** The place of a session. */
export interface SessionPlace {
  /** Aborts when a namespace with fewer sessions needs the place. */
  readonly displaced: AbortSignal
  readonly leave: () => void
}

export interface SessionPlaces {
  /** Counts an attempt of a user to open a session. @throws SessionRefusal */
  attempt(user: User): void
  /** For a user who is authorized. @throws SessionRefusal */
  take(user: User, wanted: Pick<SessionRequest, 'namespace' | 'name' | 'target'>): SessionPlace
}

/**
 * The places for sessions of a replica. When all are taken, the namespace with the most sessions loses its latest one
 * to a namespace that has fewer, so only as many namespaces as there are places can exclude another one.
 */
export function createSessionPlaces(
  clock: Pick<Clock, 'monotonic'>,
  { all, perUser, perNamespace, perMember, perVm }: SessionLimits = defaultLimits,
): SessionPlaces {
  const replica = createFairLimit(all)
  const shares = {
    user: createShares(perUser),
    namespace: createShares(perNamespace),
    member: createShares(perMember),
    VM: { ports: createShares(perVm.ports), others: createShares(perVm.others) },
  }
  const attemptsOf = {
    user: createBuckets(attempts.user, mostKeys, clock),
    namespace: createBuckets(attempts.namespace, mostKeys, clock),
  }
  const count = (owner: 'user' | 'namespace', key: string) => {
    const bucket = attemptsOf[owner](key)
    if (!bucket.takeIfAny()) throw tooFast(owner, bucket.waitMs())
  }

  return {
    attempt: (user) => count('user', tenantOf(user)),
    take(user, { namespace, name, target }) {
      count('namespace', namespace)
      const tenant = tenantOf(user)
      const keys = { user: tenant, namespace, member: `${namespace}/${tenant}`, VM: `${namespace}/${name}` } as const
      const sharesOf = { ...shares, VM: shares.VM[poolOf(target)] }
      const leaves: (() => void)[] = []
      const leave = () => {
        for (const one of leaves) one()
      }
      for (const owner of ['VM', 'namespace', 'member', 'user'] as const) {
        const one = sharesOf[owner].take(keys[owner])
        if (one === undefined) {
          leave()
          throw tooMany(owner)
        }
        leaves.push(one)
      }
      const displaced = new AbortController()
      const place = replica.hold(namespace, () => displaced.abort())
      leaves.push(() => place.release())
      place.grow(1)
      if (displaced.signal.aborted) {
        leave()
        throw tooMany('replica')
      }
      return { displaced: displaced.signal, leave }
    },
  }
}

/** For a session that was displaced, or that found no place. */
export function tooMany(owner: 'VM' | 'namespace' | 'member' | 'user' | 'replica'): SessionRefusal {
  const who = owner === 'replica' ? 'this replica of the webhooks' : `the ${owner === 'member' ? 'user' : owner}`
  const where = owner === 'member' ? ' in the namespace' : ''
  const message = `${who} has too many sessions${where}; close one of them, or try again`
  return new SessionRefusal({ code: 429, reason: 'TooManyRequests', message })
}

function tooFast(owner: 'user' | 'namespace', waitMs: number): SessionRefusal {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000))
  const { perSecond, burst } = attempts[owner]
  const rate = `${perSecond} per second after the first ${burst}`
  const message = `the ${owner} opens too many sessions (${rate}); try again in ${retryAfterSeconds} s`
  return new SessionRefusal({ code: 429, reason: 'TooManyRequests', message, retryAfterSeconds })
}

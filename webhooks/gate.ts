import { createFairLimit, type Held } from '../runtime/fair-limit.ts'

/** How much may be in progress at once. */
export interface Limits {
  readonly requests: number
  /** Bytes of heap for received bodies, beyond the `freeBytes` of each request. */
  readonly bytes: number
  /** Bytes of heap for responses, beyond the `freeBytes` of each request. */
  readonly responseBytes: number
}

/**
 * Each request may hold this much regardless of the limit, so that large bodies never block small ones. These are about
 * 10 KiB of a usual object.
 */
export const freeBytes = 128 * 1024

/**
 * The part of both limits that requests with a known tenant may hold. The rest is for bodies that are arriving,
 * which takes milliseconds; a request can wait for its turn until its caller gives up.
 */
const assignedShare = 0.75

/** A request in progress. */
export interface Pass {
  /** Whether `bytes` more may be held. */
  readonly hold: (bytes: number) => boolean
  /**
   * Assigns the request to a tenant once its body has been read.
   * @param displaced called, possibly synchronously, if the request loses its place to one of a tenant that holds less,
   *   also while its response is sent
   */
  readonly assign: (tenant: string, displaced: () => void) => void
  /** Whether `bytes` may be held for the response until the request is over. To be called after `assign`. */
  readonly respond: (bytes: number) => boolean
  /** The request is over. */
  readonly leave: () => void
}

export interface Gate {
  /** Undefined if too many requests are in progress. */
  enter(): Pass | undefined
}

/**
 * Limits the memory that requests hold to `requests` × 256 KiB + `bytes` + `responseBytes`; bytes count when received,
 * not when announced. No tenant can block the others: beyond a share of the limits, the tenant that holds the most
 * loses its largest request.
 */
export function createGate(limits: Limits): Gate {
  const places = createFairLimit(Math.ceil(limits.requests * assignedShare))
  const bodies = createFairLimit(Math.ceil(limits.bytes * assignedShare))
  const responses = createFairLimit(limits.responseBytes)
  let requests = 0
  let shared = 0
  return {
    enter() {
      if (requests >= limits.requests) return undefined
      requests++
      let held = 0
      let isInside = true
      let owned: readonly Held[] = []
      let response: Held | undefined
      const sharedOf = (bytes: number) => Math.max(0, bytes - freeBytes)
      const leave = () => {
        if (!isInside) return
        isInside = false
        requests--
        shared -= sharedOf(held)
        for (const one of owned) one.release()
      }
      return {
        hold(bytes) {
          const more = sharedOf(held + bytes) - sharedOf(held)
          if (!isInside || shared + more > limits.bytes) return false
          held += bytes
          shared += more
          return true
        },
        assign(tenant, displaced) {
          // Its client can have left while the user was looked up. Nothing would release what it held.
          if (!isInside) return
          const end = () => {
            leave()
            displaced()
          }
          const [place, body] = [places.hold(tenant, end), bodies.hold(tenant, end)]
          response = responses.hold(tenant, end)
          owned = [place, body, response]
          place.grow(1)
          body.grow(sharedOf(held))
        },
        respond(bytes) {
          const more = sharedOf(bytes)
          response?.grow(more)
          return isInside || more === 0
        },
        leave,
      }
    },
  }
}

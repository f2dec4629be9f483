/** How much may be in progress at once. */
export interface Limits {
  readonly requests: number
  /** Bytes of received bodies, beyond the `freeBytes` of each request. */
  readonly bytes: number
}

/** Each request may hold this much regardless of the limit, so that large bodies never block usual ones. */
export const freeBytes = 64 * 1024

/** A request in progress. */
export interface Pass {
  /** Whether `bytes` more may be held. */
  readonly hold: (bytes: number) => boolean
  /** The request is over. */
  readonly leave: () => void
}

export interface Gate {
  /** Undefined if too many requests are in progress. */
  enter(): Pass | undefined
}

/**
 * Limits the memory that requests hold to `requests` × 64 KiB + `bytes`; bytes count when received, not when announced.
 */
export function createGate(limits: Limits): Gate {
  let requests = 0
  let shared = 0
  return {
    enter() {
      if (requests >= limits.requests) return undefined
      requests++
      let held = 0
      let isInside = true
      const sharedOf = (bytes: number) => Math.max(0, bytes - freeBytes)
      return {
        hold(bytes) {
          const more = sharedOf(held + bytes) - sharedOf(held)
          if (shared + more > limits.bytes) return false
          held += bytes
          shared += more
          return true
        },
        leave() {
          if (!isInside) return
          isInside = false
          requests--
          shared -= sharedOf(held)
        },
      }
    },
  }
}

/** How much may be under way at once. */
export interface Limits {
  readonly requests: number
  /** Bytes of bodies that have arrived, beyond what each request may hold anyway. */
  readonly bytes: number
}

/** Each request may hold this much without asking: large bodies never keep out those of usual size. */
export const freeBytes = 64 * 1024

/** A request that is under way. */
export interface Pass {
  /** Whether `bytes` more may be held. */
  readonly hold: (bytes: number) => boolean
  /** The request is over. */
  readonly leave: () => void
}

export interface Gate {
  /** Undefined when too many requests are under way. */
  enter(): Pass | undefined
}

/** Bounds what requests hold in memory to `requests` × 64 KiB + `bytes`; what is only announced does not count. */
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

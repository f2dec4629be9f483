/** How much may be under way at once. A review lasts about a millisecond: what waits longer than this is better told to come again. */
export interface Limits {
  readonly requests: number
  /** Sum of the announced lengths of bodies: what bounds memory when large objects come together. */
  readonly bytes: number
}

export interface Gate {
  /** Gives a function back that lets the request out again, or undefined where it has to stay outside. */
  enter(bytes: number): (() => void) | undefined
  readonly inside: number
}

export function createGate(limits: Limits): Gate {
  let inside = 0
  let held = 0
  return {
    enter(bytes) {
      if (inside >= limits.requests || (inside > 0 && held + bytes > limits.bytes)) return undefined
      inside++
      held += bytes
      let isInside = true
      return () => {
        if (!isInside) return
        isInside = false
        inside--
        held -= bytes
      }
    },
    get inside() {
      return inside
    },
  }
}

import type { Meter } from './condition-budget.ts'
import { Failure } from './condition-values.ts'

/** What an expression can look at, in the words of Kubernetes' own matchConditions. */
export interface Variables {
  readonly object: unknown
  readonly request: unknown
  readonly namespaceObject: unknown
}

export interface Frame {
  readonly variables: Variables
  readonly meter: Meter
  /** Values of `bind` and of loops, by the depth at which they are bound. */
  readonly bound: unknown[]
}

export type Run = (frame: Frame) => unknown

/** Which depth each name is bound at. */
export type Names = ReadonlyMap<string, number>

/** The result of a part of an expression, or the error that it ends with. */
export function attempt(run: Run, frame: Frame): unknown {
  try {
    return run(frame)
  } catch (error) {
    if (error instanceof Failure) return error
    throw error
  }
}

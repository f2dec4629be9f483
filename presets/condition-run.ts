import type { Meter } from './condition-budget.ts'
import { Failure } from './condition-values.ts'

/** The variables of an expression, named as in Kubernetes' own matchConditions. */
export interface Variables {
  readonly object: unknown
  readonly request: unknown
  readonly namespaceObject: unknown
}

export interface Frame {
  readonly variables: Variables
  readonly meter: Meter
  /** The values of `bind` and of loop variables, indexed by the depth at which they are bound. */
  readonly bound: unknown[]
}

export type Run = (frame: Frame) => unknown

/** The depth at which each name is bound. */
export type Names = ReadonlyMap<string, number>

/** Returns the result of a part of an expression, or the Failure that ended it. Other errors are rethrown. */
export function attempt(run: Run, frame: Frame): unknown {
  try {
    return run(frame)
  } catch (error) {
    if (error instanceof Failure) return error
    throw error
  }
}

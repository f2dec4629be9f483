/**
 * Which mutant is active, and what the code under test has reached. One per process; the instrumented code shares it.
 */
export const state = {
  active: -1,
  calls: 0,
  maxCalls: Infinity,
  isTesting: false,
  reached: new Set<number>(),
  /** Reached while a file was loaded: data, which a switch cannot change later. */
  loaded: new Set<number>(),
}

/** Whether no mutant is active. */
export const runs = (mutant: number): boolean => {
  state.calls += 1
  if (state.calls > state.maxCalls) throw new Error('the mutant does not end')
  ;(state.isTesting ? state.reached : state.loaded).add(mutant)
  return state.active !== mutant
}

export const compares = (mutant: number, operator: string, opposite: string, left: never, right: never): boolean => {
  switch (runs(mutant) ? operator : opposite) {
    case '<':
      return left < right
    case '<=':
      return left <= right
    case '>':
      return left > right
    case '>=':
      return left >= right
    case '===':
      return left === right
    default:
      return left !== right
  }
}

/**
 * Which mutant is active, and what the code under test has reached. One per process; the instrumented code shares it.
 */
export const state = {
  active: -1,
  isTesting: false,
  reached: new Set<number>(),
  /** Reached while a file was loaded: data, which a switch cannot change later. */
  loaded: new Set<number>(),
  /** CPU time of this process at which the running mutant is assumed never to end. */
  maxCpuMs: Infinity,
  /** The clock is read at this number of calls, since reading it takes longer than a switch. */
  calls: 0,
  nextReading: 0,
}

const callsPerReading = 1000

/** CPU time, because a wall clock would also measure what else the host does. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** Whether no mutant is active. */
export const runs = (mutant: number): boolean => {
  state.calls += 1
  if (state.calls >= state.nextReading) readClock()
  if (state.active < 0) (state.isTesting ? state.reached : state.loaded).add(mutant)
  return state.active !== mutant
}

/** Throws at every switch after the limit: the code under test may catch the first error. */
function readClock(): void {
  if (isOver()) throw new Error('the mutant does not end')
  state.nextReading = state.calls + callsPerReading
}

export const isOver = (): boolean => cpuMs() > state.maxCpuMs

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

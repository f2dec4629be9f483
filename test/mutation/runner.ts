import { TestRunner, type RunnerTask } from 'vitest'
import { compares, runs, state } from './switches.ts'

declare module 'vitest' {
  interface TaskMeta {
    /** The mutants reached by loading code, those that the test reached, and those of them that make it fail. */
    mutants?: {
      readonly loaded: readonly number[]
      readonly reached: readonly number[]
      readonly killed: readonly number[]
    }
    /** Why no mutant was run with this test. */
    notMutated?: 'slow' | 'not repeatable'
  }
}

/** A test that needs more CPU time generates its cases and is not used. */
const slowMs = 300

/** A mutant that takes this many times longer is assumed never to end. */
const endless = 100

const timeoutMs = 10_000

const killedBefore = new Set<number>()

Object.assign(globalThis, { __mutation: { runs, compares } })

/** Runs every test unchanged, then with each mutant that it reaches and that no earlier test has killed. */
export default class MutationRunner extends TestRunner {
  async runTask(test: RunnerTask): Promise<void> {
    if (test.type !== 'test') return
    const attempt = async (): Promise<void> => {
      this.onBeforeTryTask(test, { retry: 0, repeats: 0 })
      await TestRunner.getTestFn(test)()
      this.onAfterTryTask(test)
    }
    Object.assign(state, { isTesting: true, reached: new Set() })
    const started = process.cpuUsage()
    await attempt()
    const { user, system } = process.cpuUsage(started)
    if (user + system > slowMs * 1000) test.meta.notMutated = 'slow'
    const reached = [...state.reached]
    const killed = await kill(test, reached, attempt)
    state.isTesting = false
    test.meta.mutants = { loaded: [...state.loaded], reached, killed }
    for (const mutant of killed) killedBefore.add(mutant)
    // vitest only counts the assertions of the last run.
    if (killed.length > 0) await attempt()
  }
}

async function kill(test: RunnerTask, reached: readonly number[], attempt: () => Promise<void>): Promise<number[]> {
  const alive = reached.filter((mutant) => !killedBefore.has(mutant))
  if (alive.length === 0 || test.meta.notMutated) return []
  state.calls = 0
  if (await fails(attempt)) {
    test.meta.notMutated = 'not repeatable'
    return []
  }
  const maxCalls = endless * (state.calls + endless)
  const killed: number[] = []
  for (const mutant of alive) {
    Object.assign(state, { active: mutant, calls: 0, maxCalls })
    if (await fails(attempt)) killed.push(mutant)
  }
  Object.assign(state, { active: -1, maxCalls: Infinity })
  return killed
}

async function fails(attempt: () => Promise<void>): Promise<boolean> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(reject, timeoutMs, new Error('timed out'))
  try {
    await Promise.race([attempt(), promise])
    return false
  } catch {
    return true
  } finally {
    clearTimeout(timer)
  }
}

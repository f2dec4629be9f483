import { inject, TestRunner, type RunnerTask } from 'vitest'
import { compares, cpuMs, isOver, runs, state } from './switches.ts'

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
  interface ProvidedContext {
    /** The mutants that earlier tests killed. */
    readonly killedBefore: readonly number[]
    /** For each test file the first mutant it runs and the one after the last; without an entry, it runs all. */
    readonly ranges: Readonly<Record<string, readonly [first: number, end: number]>>
  }
}

/** A test that needs more CPU time generates its cases and is not used. */
const slowMs = 300

/** A mutant that takes this many times longer, and `endlessMs` more, is assumed never to end. */
const endless = 10

const endlessMs = 500

/** A mutant is assumed to wait for ever if a test has not ended after as many turns of the event loop. */
const maxTicks = 100

const tickMs = 100

const killedBefore = new Set(inject('killedBefore'))

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
    const started = cpuMs()
    await attempt()
    if (cpuMs() - started > slowMs) test.meta.notMutated = 'slow'
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
  const [first, end] = inject('ranges')[test.file.filepath] ?? [0, Infinity]
  const alive = reached.filter((mutant) => mutant >= first && mutant < end && !killedBefore.has(mutant))
  if (alive.length === 0 || test.meta.notMutated) return []
  const started = cpuMs()
  if (await fails(attempt)) {
    test.meta.notMutated = 'not repeatable'
    return []
  }
  const limitMs = endless * (cpuMs() - started) + endlessMs
  const killed: number[] = []
  for (const mutant of alive) {
    Object.assign(state, { active: mutant, maxCpuMs: cpuMs() + limitMs, nextReading: 0 })
    if ((await fails(attempt)) || isOver()) killed.push(mutant)
  }
  Object.assign(state, { active: -1, maxCpuMs: Infinity })
  return killed
}

async function fails(attempt: () => Promise<void>): Promise<boolean> {
  const { promise, reject } = Promise.withResolvers<never>()
  let ticks = 0
  // Ticks instead of one long timer: on a busy host, the process may not have run at all when the timer ends.
  const timer = setInterval(() => {
    ticks += 1
    if (ticks >= maxTicks) reject(new Error('timed out'))
  }, tickMs)
  try {
    await Promise.race([attempt(), promise])
    return false
  } catch {
    return true
  } finally {
    clearInterval(timer)
  }
}

import { expect, test } from 'vitest'
import { instrument } from '../mutation/mutants.ts'
import { compares, cpuMs, isOver, runs, state } from '../mutation/switches.ts'

/** The value that a function body returns for `a`, or writes to `found`, with each of its mutants. */
const results = (body: string, a: unknown): { readonly [mutant: string]: unknown } => {
  const { code, mutants } = instrument('rule.ts', `(a, found) => {\n${body}\n}`, 7)
  const run = (active: number): unknown => {
    state.active = active
    const found: unknown[] = []
    // oxlint-disable-next-line typescript/no-implied-eval
    const returned: unknown = new Function('__mutation', `return ${code}`)({ runs, compares })(a, found)
    return returned ?? found
  }
  const changed = mutants.map(({ line, change, code: place }, index) => [`${line} ${change}: ${place}`, run(index + 7)])
  return { unchanged: run(-1), ...Object.fromEntries(changed) }
}

test.each<[string, string, unknown, { readonly [mutant: string]: unknown }]>([
  [
    'a guarded statement is left out, and its condition met',
    'if (a === 1)\n  found.push(a)\nelse found.push(0)',
    1,
    {
      unchanged: [1],
      '2 true: a === 1': [1],
      '2 false: a === 1': [0],
      '3 without: found.push(a)': [],
      '4 without: found.push(0)': [1],
    },
  ],
  [
    'a guard that leaves is never met',
    'if (a === 1) return\nfound.push(a)',
    1,
    { unchanged: [], '2 false: a === 1': [1], '3 without: found.push(a)': [] },
  ],
  [
    'an operand has no effect, and a comparison another boundary',
    'if (a > 1 && a !== 5) found.push(a)',
    1,
    { unchanged: [], '2 true: a > 1': [1], '2 >=: a > 1': [1], '2 true: a !== 5': [], '2 without: found.push(a)': [] },
  ],
  [
    'an element of a list is left out, either side of a choice taken',
    'return [...(a ? [String(a)] : []), { a }, 2]',
    3,
    {
      unchanged: ['3', { a: 3 }, 2],
      '2 without: return [...(a ? [String(a)] : []), { a }, 2]': [],
      '2 without: ...(a ? [String(a)] : [])': [{ a: 3 }, 2],
      '2 true: a': ['3', { a: 3 }, 2],
      '2 false: a': [{ a: 3 }, 2],
      '2 without: String(a)': [{ a: 3 }, 2],
      '2 without: { a }': ['3', 2],
    },
  ],
  [
    'a filter passes everything, a comparison elsewhere is reversed',
    'return a.filter((one) => Number(one)).map((one) => one === 1)',
    [0, 1],
    {
      unchanged: [true],
      '2 without: return a.filter((one) => Number(one)).map((one) => one === 1)': [],
      '2 true: Number(one)': [false, true],
      '2 !==: one === 1': [false],
    },
  ],
  [
    'a case of a switch is left out',
    "switch (a) {\n  case 'x':\n    found.push(a)\n}",
    'x',
    { unchanged: ['x'], "3 without: 'x'": [], '4 without: found.push(a)': [] },
  ],
])('%s', (_, body, a, expected) => {
  expect(results(body, a)).toEqual(expected)
})

test('rejects code that does not parse', () => {
  expect(() => instrument('rule.ts', 'if (', 0)).toThrow(/^rule\.ts: /)
})

test('a mutant that uses more CPU time than it may is stopped at every later switch', () => {
  Object.assign(state, { maxCpuMs: cpuMs() + 20, nextReading: 0 })
  let passes = 0
  const loop = () => {
    while (runs(0)) passes += 1
  }
  expect(loop).toThrow('the mutant does not end')
  expect(() => runs(0)).toThrow('the mutant does not end')
  expect([isOver(), passes > 0]).toEqual([true, true])
  Object.assign(state, { maxCpuMs: Infinity, nextReading: 0 })
  expect(runs(0)).toBe(true)
})

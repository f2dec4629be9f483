import { describe, expect, test } from 'vitest'
import { bombObject, bombs } from '../test/presets/bombs.ts'
import { clusterPreset, injectSmall, preset, vmWith } from '../test/presets/make.ts'
import { celValue, compileCondition } from './condition.ts'
import { createBudget, OverBudget, presetLimit, spend, takeBytes, takeSteps } from './condition-budget.ts'

const variables = { object: celValue(bombObject), request: {}, namespaceObject: {} }

/** CPU time of this process, which does not depend on the load of the machine. */
function cpuMs(run: () => void): number {
  const before = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

test.each(bombs)('%s: evaluation stops', (_, expression) => {
  const condition = compileCondition('bomb', expression)
  if ('fault' in condition) throw new Error(condition.fault)
  const results: unknown[] = []
  const evaluate = () => results.push(condition.evaluate(variables, { ...presetLimit }))
  // Includes compilation by V8 in the first run.
  const times = [cpuMs(evaluate), cpuMs(evaluate), cpuMs(evaluate)]
  expect(results).toEqual(results.map(() => ({ over: expect.stringMatching(/steps|bytes/) })))
  // Ten times the actual time. Without a working budget it would take seconds.
  expect(Math.min(...times)).toBeLessThan(150)
})

test.each([-1, -1e12, -Infinity, NaN, Infinity, 11])('%d exceeds a budget of 10 and exhausts it', (amount) => {
  const meter = { steps: 10, bytes: 10 }
  expect(() => takeSteps(meter, amount)).toThrow(OverBudget)
  expect(() => takeBytes(meter, amount)).toThrow(OverBudget)
  expect(meter).toEqual({ steps: 0, bytes: 0 })
})

test('a budget can be used up to its last step and byte', () => {
  const meter = { steps: 10, bytes: 10 }
  takeSteps(meter, 10)
  takeBytes(meter, 10)
  expect(meter).toEqual({ steps: 0, bytes: 0 })
})

test.each([
  [undefined, 'the cluster'],
  ['team', 'namespace "team"'],
])('presets of namespace %s share a budget of memory with %s', (namespace, scope) => {
  const budget = createBudget()
  const use = (id: string, bytes: number) =>
    spend(budget, { id, ...(namespace === undefined ? {} : { namespace }) }, (meter, whyOver) => {
      const granted = meter.bytes
      takeBytes(meter, Math.min(bytes, granted))
      return bytes > granted ? whyOver('bytes') : 'enough'
    })
  const mebibytes = (count: number) => count * 1024 * 1024
  expect([use('a', mebibytes(3)), use('b', mebibytes(3.55)), use('c', mebibytes(3)), use('d', 1)]).toEqual([
    'enough',
    'enough',
    `the presets of ${scope} take more than 8 MiB on this VM together: "b" takes 3.6 MiB, "a" takes 3 MiB`,
    `the presets of ${scope} take more than 8 MiB on this VM together: "b" takes 3.6 MiB, "a" takes 3 MiB, "c" takes 1.5 MiB`,
  ])
})

test('a preset that alone takes more than its limit is at fault itself', () => {
  expect(spend(createBudget(), { id: 'a' }, (_, whyOver) => whyOver('bytes'))).toBe(
    'takes more than 4 MiB on this VM, the limit of one preset',
  )
})

describe('presets whose conditions exceed the budget', () => {
  // At least 3000 × 3000 steps.
  const endless =
    'object.metadata.annotations.list.split(",").all(a, object.metadata.annotations.list.split(",").all(b, true))'
  /** About half of the limit of one preset. */
  const half = 'object.metadata.annotations.list.split(",").all(a, [1,2,3].all(b, true))'
  const list = Array.from({ length: 3000 }, () => 'a').join()
  const when = (expression: string) => ({ matchConditions: [{ name: 'c', expression }] })
  const title = (text: string) => ({ domain: { title: text } })
  const inject = (presets: Parameters<typeof injectSmall>[1]) => {
    const { vm, causes, warnings } = injectSmall(vmWith({}, { annotations: { list } }), presets)
    return { domain: vm.spec.domain, causes: causes.map(({ message }) => message), warnings }
  }
  const tooMuch = 'takes more than 100,000 steps on this VM, the limit of one preset'

  test('a Default preset is left out, and the others apply', () => {
    const presets = [
      preset('bad', { ...title('a'), ...when(endless), priority: 9 }),
      preset('good', { ...title('b'), ...when('true') }),
    ]
    expect(inject(presets)).toEqual({
      domain: { title: 'b' },
      causes: [],
      warnings: [`preset "team/bad" left out: condition "c" cannot be evaluated: ${tooMuch}`],
    })
  })

  test('an Enforce preset refuses the VM', () => {
    expect(inject([preset('bad', { ...title('a'), ...when(endless), strength: 'Enforce' })]).causes).toEqual([
      `preset "team/bad" has strength Enforce, but its condition "c" cannot be evaluated: ${tooMuch}`,
    ])
  })

  test.each(['Warn', 'Audit'])('a preset in mode %s is limited too', (mode) => {
    expect(inject([preset('bad', { ...title('a'), ...when(endless), mode })]).warnings).toEqual([
      `preset "team/bad" left out: condition "c" cannot be evaluated: ${tooMuch}`,
    ])
  })

  test('presets of a namespace do not use up the budget of cluster presets', () => {
    const bad = ['a', 'b', 'c', 'd'].map((name) =>
      preset(name, { ...when(endless), strength: 'Enforce', mode: 'Audit' }),
    )
    const { domain } = inject([...bad, clusterPreset('site', { ...title('site'), ...when(half) })])
    expect(domain).toEqual({ title: 'site' })
  })

  test('if many exceed the budget together, the last are left out and the most expensive are named', () => {
    const presets = ['a', 'b', 'c', 'd', 'e'].map((name, index) =>
      preset(name, { ...when(half), priority: 9 - index, domain: { title: name } }),
    )
    const { domain, causes, warnings } = inject(presets)
    expect({ domain, causes }).toEqual({ domain: { title: 'a' }, causes: [] })
    const together =
      'the presets of namespace "team" take more than 150,000 steps on this VM together: ' +
      '"team/a" takes 46,133 steps, "team/b" takes 46,133 steps, "team/c" takes 46,133 steps'
    expect(warnings).toEqual(
      ['d', 'e'].map((name) => `preset "team/${name}" left out: condition "c" cannot be evaluated: ${together}`),
    )
  })
})

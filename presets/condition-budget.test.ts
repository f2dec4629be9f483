import { describe, expect, test } from 'vitest'
import { bombObject, bombs } from '../test/presets/bombs.ts'
import { clusterPreset, injectSmall, preset, vmWith } from '../test/presets/make.ts'
import { celValue, compileCondition } from './condition.ts'
import { OverBudget, presetLimit, takeBytes, takeSteps } from './condition-budget.ts'

const variables = { object: celValue(bombObject), request: {}, namespaceObject: {} }

/** CPU time of this process, so that a busy machine does not count. */
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
  // The first evaluation is compiled by V8, too.
  const times = [cpuMs(evaluate), cpuMs(evaluate), cpuMs(evaluate)]
  expect(results).toEqual(results.map(() => ({ over: expect.stringMatching(/steps|bytes/) })))
  // Ten times what it takes: a budget that counts nothing takes seconds.
  expect(Math.min(...times)).toBeLessThan(150)
})

test.each([-1, -1e12, -Infinity, NaN, Infinity, 11])('%d is over a budget of 10, and leaves none of it', (amount) => {
  const meter = { steps: 10, bytes: 10 }
  expect(() => takeSteps(meter, amount)).toThrow(OverBudget)
  expect(() => takeBytes(meter, amount)).toThrow(OverBudget)
  expect(meter).toEqual({ steps: 0, bytes: 0 })
})

describe('presets whose conditions take too much', () => {
  // 3000 × 3000 steps or more.
  const endless =
    'object.metadata.annotations.list.split(",").all(a, object.metadata.annotations.list.split(",").all(b, true))'
  /** About half of what one preset is allowed. */
  const half = 'object.metadata.annotations.list.split(",").all(a, [1,2,3].all(b, true))'
  const list = Array.from({ length: 3000 }, () => 'a').join()
  const when = (expression: string) => ({ matchConditions: [{ name: 'c', expression }] })
  const title = (text: string) => ({ domain: { title: text } })
  const inject = (presets: Parameters<typeof injectSmall>[1]) => {
    const { vm, causes, warnings } = injectSmall(vmWith({}, { annotations: { list } }), presets)
    return { domain: vm.spec.domain, causes: causes.map(({ message }) => message), warnings }
  }
  const tooMuch = 'takes more than 100,000 steps on this VM, the limit of one preset'

  test('a default is left out, and all others take part', () => {
    const presets = [
      preset('bad', { ...title('a'), ...when(endless), priority: 9 }),
      preset('good', { ...title('b'), ...when('true') }),
    ]
    expect(inject(presets)).toEqual({
      domain: { title: 'b' },
      causes: [],
      warnings: [`preset "team/bad" left out: condition "c" cannot be decided: ${tooMuch}`],
    })
  })

  test('one that enforces refuses the VM', () => {
    expect(inject([preset('bad', { ...title('a'), ...when(endless), strength: 'Enforce' })]).causes).toEqual([
      `preset "team/bad" enforces, and its condition "c" cannot be decided: ${tooMuch}`,
    ])
  })

  test.each(['Warn', 'Audit'])('mode %s is bounded, too', (mode) => {
    expect(inject([preset('bad', { ...title('a'), ...when(endless), mode })]).warnings).toEqual([
      `preset "team/bad" left out: condition "c" cannot be decided: ${tooMuch}`,
    ])
  })

  test('those of a namespace take nothing from those of the cluster', () => {
    const bad = ['a', 'b', 'c', 'd'].map((name) =>
      preset(name, { ...when(endless), strength: 'Enforce', mode: 'Audit' }),
    )
    const { domain } = inject([...bad, clusterPreset('site', { ...title('site'), ...when(half) })])
    expect(domain).toEqual({ title: 'site' })
  })

  test('where many take too much together, the last are left out, and those that take the most are named', () => {
    const presets = ['a', 'b', 'c', 'd', 'e'].map((name, index) =>
      preset(name, { ...when(half), priority: 9 - index, domain: { title: name } }),
    )
    const { domain, causes, warnings } = inject(presets)
    expect({ domain, causes }).toEqual({ domain: { title: 'a' }, causes: [] })
    const together =
      'the presets of namespace "team" take more than 150,000 steps on this VM together: ' +
      '"team/a" takes 46,133 steps, "team/b" takes 46,133 steps, "team/c" takes 46,133 steps'
    expect(warnings).toEqual(
      ['d', 'e'].map((name) => `preset "team/${name}" left out: condition "c" cannot be decided: ${together}`),
    )
  })
})

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyExpression } from '../test/arbitraries/condition.ts'
import { celValue, compileCondition } from './condition.ts'
import { ordinary } from './condition-estimate.ts'

const text = 'x'.repeat(ordinary.characters)
const disks = Array.from({ length: ordinary.members }, (_, index) => ({ target: { dev: `vd${index}` }, k: text }))
const variables = {
  object: celValue({
    metadata: { name: text, labels: { k: text } },
    spec: { domain: { devices: { disks } } },
    gone: text,
  }),
  request: { userInfo: { groups: Array.from({ length: ordinary.members }, () => text) } },
  namespaceObject: {},
}

test('no expression costs more on an ordinary VM than its estimate', () => {
  fc.assert(
    fc.property(anyExpression, (value) => {
      const condition = compileCondition('any', `${value} == 1`)
      if ('fault' in condition) return fc.pre(false)
      const meter = { steps: 1e9, bytes: 1e9 }
      // Errors are not part of the estimate.
      fc.pre('isTrue' in condition.evaluate(variables, meter))
      const { expression, estimate } = condition
      const most = {
        steps: Math.max(estimate.steps, 1e9 - meter.steps),
        bytes: Math.max(estimate.bytes, 1e9 - meter.bytes),
      }
      expect({ expression, ...most }).toEqual({ expression, steps: estimate.steps, bytes: estimate.bytes })
    }),
    { numRuns: 300, maxSkipsPerRun: 200 },
  )
})

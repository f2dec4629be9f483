import { serialize } from '@marcbachmann/cel-js'
import { expect, test } from 'vitest'
import { createConditionEnvironment } from './condition-environment.ts'
import { flattenTypes } from './condition-types.ts'

const environment = createConditionEnvironment()
const flattened = (expression: string): string =>
  serialize(flattenTypes(environment.parse(expression).ast, () => environment.parse('dyn(0)').ast))

test.each([
  ['[1, [2]]', '[1, dyn([2])]'],
  ['{"a": {"b": [x]}}', '{"a": dyn({"b": dyn([dyn(x)])})}'],
  ['[1].map(x, [x])', '[1].map(x, dyn([dyn(x)]))'],
  ['[1].map(x, x > 0, x)', '[1].map(x, x > 0, dyn(x))'],
  ['optional.of([1])', 'optional.of(dyn([1]))'],
  ['object.a.exists(x, x == [1, 2])', 'object.a.exists(x, x == [1, 2])'],
])('%s is checked as %s', (expression, checked) => {
  expect(flattened(expression)).toBe(checked)
})

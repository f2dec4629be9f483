import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyExpression } from '../test/arbitraries/condition.ts'
import { celValue, compileCondition } from './condition.ts'
import { createConditionEnvironment } from './condition-environment.ts'
import { estimate, ordinary } from './condition-estimate.ts'

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

const environment = createConditionEnvironment()

test.each<[string, number, number, string]>([
  ['1', 1, 0, '1'],
  ['object', 1, 0, 'object'],
  ['request', 1, 0, 'request'],
  ['object.metadata.name', 3, 0, 'object.metadata'],
  ['object.metadata.labels["a"]', 6, 0, 'object.metadata.labels["a"]'],
  ['object.?metadata', 3, 0, 'object.?metadata'],
  ['object.spec.domain.devices.disks[0].target.dev', 10, 0, 'object.spec.domain.devices.disks[0]'],
  ['1 + 2', 7, 80, '1 + 2'],
  ['!true', 6, 0, '!true'],
  ['true && true', 7, 0, 'true && true'],
  ['true ? "aa" : object.metadata.name', 6, 0, 'true ? "aa" : object.metadata.name'],
  ['1 == 1', 13, 0, '1 == 1'],
  ['object.metadata.name == "a"', 11, 0, 'object.metadata.name == "a"'],
  ['object == request', 1007, 0, 'object == request'],
  ['object.metadata.name < "b"', 10, 0, 'object.metadata.name < "b"'],
  ['"a" + object.metadata.name', 22, 1874, '"a" + object.metadata.name'],
  ['[1, 2] + [3]', 13, 464, '[1, 2] + [3]'],
  ['"a" in object.spec.domain.devices.disks', 107, 0, '"a" in object.spec.domain.devices.disks'],
  ['"a" in object.metadata.labels', 105, 0, '"a" in object.metadata.labels'],
  ['"a" in ["a", "b"]', 16, 144, '"a" in ["a", "b"]'],
  ['[1, object.metadata.name] == [1]', 22, 240, '[1, object.metadata.name] == [1]'],
  ['{"a": 1, "b": object.metadata.name}', 9, 288, '{"a": 1, "b": object.metadata.name}'],
  ['[[1, 2], ["a"]].all(x, x == [1])', 52, 1152, 'x == [1]'],
  ['["a", [1]][0] == ["b"]', 25, 336, '["a", [1]][0] == ["b"]'],
  ['has(object.metadata.name)', 5, 0, 'object.metadata.name'],
  ['object.spec.domain.devices.disks.all(d, d.target.dev == "vda")', 456, 6336, 'd.target.dev == "vda"'],
  ['object.metadata.labels.all(key, key == "a")', 390, 6336, 'key == "a"'],
  ['request.userInfo.groups.exists(g, g == "a")', 390, 6336, 'g == "a"'],
  [
    'object.spec.domain.devices.disks.map(d, d.target.dev).join(",")',
    363,
    14624,
    'object.spec.domain.devices.disks.map(d, d.target.dev)',
  ],
  ['object.spec.domain.devices.disks.filter(d, d.readonly == {}).size()', 405, 9408, 'd.readonly == {}'],
  ['[1, 2].map(x, true, "ab").join("-")', 22, 764, '[1, 2].map(x, true, "ab")'],
  ['[1, 2].filter(x, true).all(y, y == 1)', 50, 1296, 'y == 1'],
  ['cel.bind(x, object.metadata.name, x + x)', 35, 3664, 'x + x'],
  ['optional.of(object.metadata.name).orValue("b")', 11, 0, 'optional.of(object.metadata.name)'],
  [
    'optional.none().or(optional.of(object.metadata.name)).value() == "a"',
    29,
    0,
    'optional.none().or(optional.of(object.metadata.name))',
  ],
  ['size(object.metadata.name)', 40, 0, 'size(object.metadata.name)'],
  ['size([1, 2])', 10, 144, 'size([1, 2])'],
  ['b"abc" + b"de"', 8, 90, 'b"abc" + b"de"'],
  ['dyn(object.metadata.name) == "b"', 16, 0, 'dyn(object.metadata.name) == "b"'],
  ['bytes(object.metadata.name).json() == 1', 425, 15744, 'bytes(object.metadata.name).json()'],
  ['object.metadata.name.substring(1) == "a"', 21, 256, 'object.metadata.name.substring(1)'],
  ['object.metadata.name.split(",")', 175, 10656, 'object.metadata.name.split(",")'],
  ['object.metadata.name.split(",", 2)', 434, 11232, 'object.metadata.name.split(",", 2)'],
  ['object.metadata.name.split(",").all(x, x == "a")', 1726, 35616, 'x == "a"'],
  ['object.metadata.name.matches("^x+$")', 299, 1200, 'object.metadata.name.matches("^x+$")'],
  [
    'object.metadata.name.matches(object.metadata.name)',
    72557,
    200000,
    'object.metadata.name.matches(object.metadata.name)',
  ],
  ['quantity("1Gi").isInteger()', 171, 512, 'quantity("1Gi")'],
  [
    'timestamp(object.metadata.name).getHours("UTC") == 1',
    12038,
    65536,
    'timestamp(object.metadata.name).getHours("UTC")',
  ],
  [
    'object.spec.domain.devices.disks.all(a, object.spec.domain.devices.disks.all(b, a.target.dev != b.target.dev))',
    19816,
    209088,
    'a.target.dev != b.target.dev',
  ],
  ['object.spec.map(key, key + key)', 581, 25280, 'key + key'],
  ['[1, ["ab"]].all(x, x.all(y, y + y == "b"))', 75, 2768, 'y + y == "b"'],
  ['(1 < 2) == true', 19, 0, '1 < 2 == true'],
  ['has(object.a) == true', 16, 0, 'has(object.a) == true'],
  ['object.metadata.name.matches("a") == true', 214, 600, 'object.metadata.name.matches("a")'],
  ['object.metadata.name.matches(1)', 72555, 200000, 'object.metadata.name.matches(1)'],
  ['[object.metadata.name].join(",") + "a"', 24, 726, '[object.metadata.name].join(",")'],
  ['cel.bind(x, "ab", [1].all(y, x + x == "b"))', 27, 568, 'x + x == "b"'],
  ['[1, 2].all(x, true) == [3, 4].exists(x, true)', 41, 1440, '[1, 2].all(x, true) == [3, 4].exists(x, true)'],
  ['[1, 2].map(x, x) == [3, 4].filter(x, true)', 50, 1440, '[1, 2].map(x, x) == [3, 4].filter(x, true)'],
  ['bytes(object.metadata.name).json().all(x, true)', 1952, 89664, 'bytes(object.metadata.name).json().all(x, true)'],
  ['(true && 1 == 1) == true', 31, 0, 'true && 1 == 1'],
  ['(true || 1 == 1) == true', 31, 0, 'true || 1 == 1'],
  ['(!true) == true', 18, 0, '!true == true'],
  ['(-object.a) == 1', 19, 0, '-object.a == 1'],
  ['object.spec.volumes[?0] == 1', 18, 0, 'object.spec.volumes[?0] == 1'],
  ['(1 in [1]) == true', 28, 96, '1 in [1]'],
  [
    'dyn([object.metadata.name]) == [object.metadata.name]',
    1022,
    192,
    'dyn([object.metadata.name]) == [object.metadata.name]',
  ],
  ['optional.of([1, 2]) == [1, 2]', 34, 288, 'optional.of([1, 2]) == [1, 2]'],
  ['[1].map(x, cel.bind(y, "abc", [2].map(z, y + y)))', 28, 1052, '[2].map(z, y + y)'],
])('%s takes at most %i steps and %i bytes, most of them in %s', (expression, steps, bytes, dearest) => {
  expect(estimate(environment.parse(expression).ast)).toEqual({ steps, bytes, dearest })
})

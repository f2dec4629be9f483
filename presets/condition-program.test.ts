import { EvaluationError, Optional } from '@marcbachmann/cel-js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyExpression } from '../test/arbitraries/condition.ts'
import { celValue } from './condition.ts'
import type { Meter } from './condition-budget.ts'
import { ownFunctions } from './condition-call.ts'
import { callCosts } from './condition-costs.ts'
import { createConditionEnvironment } from './condition-environment.ts'
import { macros } from './condition-macros.ts'
import { compileProgram, writtenInstructions } from './condition-program.ts'
import { Failure } from './condition-values.ts'

const environment = createConditionEnvironment()

const variables = {
  object: celValue({
    metadata: { name: 'web-1', labels: { size: 'small', 'a.b/c': 'd' }, annotations: {} },
    spec: {
      domain: {
        memory: { unit: 'MiB', value: 64 },
        ratio: 1.5,
        on: true,
        nothing: null,
        devices: { disks: [{ target: { dev: 'vda' } }, { target: { dev: 'vdb' }, readonly: {} }], empty: [] },
      },
    },
    time: '2026-01-02T03:04:05Z',
    long: '90m',
  }),
  request: celValue({ userInfo: { username: 'jane', groups: ['devs', 'ops'] }, operation: 'CREATE', dryRun: false }),
  namespaceObject: celValue({ metadata: { name: 'team', labels: { tier: 'gold' } } }),
}

const unlimited = (): Meter => ({ steps: Infinity, bytes: Infinity })

/** JSON cannot represent a bigint. */
const plain = (value: unknown): unknown => {
  if (typeof value === 'bigint') return { int: `${value}` }
  if (value instanceof Optional) return { optional: value.hasValue() ? plain(value.value()) : 'none' }
  if (value instanceof Uint8Array) return { bytes: [...value] }
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, plain(member)]))
}

const outcomeOf = (run: () => unknown): unknown => {
  try {
    return { value: plain(run()) }
  } catch (error) {
    if (error instanceof Failure || error instanceof EvaluationError || error instanceof Error) return 'error'
    throw error
  }
}

const ours = (expression: string): unknown =>
  outcomeOf(() => compileProgram(environment.parse(expression).ast).run(variables, unlimited()))
const librarys = (expression: string): unknown => outcomeOf(() => environment.parse(expression)(variables))

const disks = 'object.spec.domain.devices.disks'
test.each([
  // Literals and operators
  '1 + 2 * 3 - 4 / 2 % 3',
  '-(1) < 2 && 2u > 1u && 1.5 <= 2.5',
  'dyn(1) == 1.0 && dyn(1u) == 1',
  'dyn(1) == dyn("1")',
  'null == null && object.spec.domain.nothing == null',
  '9223372036854775807 + 1 == 0',
  '1 / 0 == 1',
  '1 % 0 == 1',
  '"a" + "b" == "ab"',
  'b"a" + b"b" == b"ab"',
  '[1, 2] + [3] == [1, 2, 3]',
  '{"a": [1, {"b": 2}]} == {"a": [1, {"b": 2.0}]}',
  '[1, "a", true] == [1, "a", false]',
  '[1] == [1, 2]',
  '"ab" == "ac"',
  '{"a": 1} == {"a": 1, "b": 2}',
  '{"a": 1, "b": 2} == {"a": 1}',
  '{"a": 1} == {"b": 1}',
  '{"a": 1} == {"a": 2}',
  'dyn([1]) == dyn({"a": 1}) || dyn([1]) == dyn(1) || dyn({"a": 1}) == dyn(1)',
  '[] == [] && {} == {}',
  '[[1]] != [[2]]',
  '"a" < "b" && "b" >= "b"',
  'true < false',
  '!object.spec.domain.on',
  '!object.metadata.name',
  '-object.spec.domain.memory.value',
  'object.spec.domain.on ? 1 : 2',
  'object.metadata.name ? 1 : 2',
  'false ? 1 : 2',
  // Logic absorbs errors
  'object.gone || true',
  'true || object.gone',
  'object.gone || false',
  'object.gone && false',
  'object.gone && true',
  'object.metadata.name || true',
  'object.metadata.name || false',
  'false || object.metadata.name',
  'object.metadata.name && object.gone',
  // Members
  'object.metadata.labels.size',
  'object.metadata.labels["a.b/c"]',
  'object.metadata.labels.gone',
  `${disks}[1].target.dev`,
  `${disks}[2]`,
  `${disks}[-1]`,
  `${disks}[0.0]`,
  `${disks}.dev`,
  'object.metadata.name.dev',
  'object.spec.domain.nothing.dev',
  'object[1]',
  '{1: "a"}[1]',
  '{true: "a"}[true]',
  '{"__proto__": 1, "a": 2}',
  '{"constructor": 1, "a": 2}',
  'object.constructor',
  // Optional values
  'object.?metadata.?gone.orValue("x")',
  'object.?metadata.?name.orValue("x")',
  `${disks}[?5].orValue({}) == {}`,
  `${disks}[?0].target.dev`,
  'object.metadata.?labels.size',
  'object.?a.b.c',
  'object.?gone.?deeper.hasValue()',
  'object.?gone.hasValue()',
  `${disks}[?"0"].hasValue() || ${disks}[?2].hasValue()`,
  'optional.of(1).or(optional.none()).value() == 1',
  'optional.none().hasValue()',
  'optional.none().value()',
  'object.metadata.orValue(1)',
  'dyn(optional.of([1, 2])) == dyn(optional.of([1, 2]))',
  // has
  'has(object.metadata.labels.size)',
  'has(object.metadata.labels.gone)',
  'has(object.gone.deeper)',
  'has(object.?gone.deeper)',
  'has(object.metadata.name.deeper)',
  'has(object.spec.domain.nothing)',
  `has(${disks}.dev)`,
  'cel.bind(x, dyn(optional.of(object)), has(x.gone))',
  // in
  '"devs" in request.userInfo.groups',
  '"size" in object.metadata.labels',
  '"constructor" in object.metadata.labels',
  '1 in dyn([1.0, 2.0])',
  '{"dev": "vda"} in [{"dev": "vda"}]',
  '[1] in [[1], [2]]',
  '"a" in dyn("abc")',
  // Loops
  `${disks}.all(d, d.target.dev.startsWith("vd"))`,
  `${disks}.exists(d, d.readonly == {})`,
  `${disks}.all(d, has(d.readonly))`,
  `${disks}.exists(d, d.gone)`,
  `${disks}.all(d, d.target.dev)`,
  `${disks}.exists_one(d, d.target.dev == "vda")`,
  `${disks}.exists_one(d, d.gone)`,
  `${disks}.map(d, d.target.dev)`,
  `${disks}.map(d, has(d.readonly), d.target.dev)`,
  `${disks}.filter(d, has(d.readonly)).size()`,
  `${disks}.filter(d, d.target)`,
  'object.metadata.labels.all(key, key != "")',
  'object.metadata.labels.map(key, object.metadata.labels[key])',
  'object.metadata.name.all(c, true)',
  'object.spec.domain.nothing.exists(c, true)',
  '[1, 2].map(x, [3, 4].map(y, x * y))',
  '[1, 2].map(x, [3].map(x, x))',
  '[1].map(x, [2].map(y, [3].map(x, cel.bind(z, 4, [x, y, z])) + [[x]]))',
  'object.spec.domain.devices.empty.all(x, x.gone)',
  'cel.bind(a, 1, cel.bind(b, a + 1, a + b))',
  'cel.bind(a, 1, [2].map(a, a) + [a])',
  'cel.bind(object, 1, object)',
  // Functions
  'size(object.metadata) == 3 && size("añ") == 2 && [1].size() == 1 && {"a": 1}.size() == 1',
  'size(dyn(1))',
  'type(object) == map && type([]) == list && type(1) == int && type("") == string && type(null) == null_type',
  'string(1) + string(1.5) + string(true) + string(b"a")',
  'int("12") + int(1.9)',
  'int("x")',
  'double("1.5") + double(1)',
  'uint(1) + 1u == 2u',
  'bool("true")',
  'bool("maybe")',
  'bytes("a").hex() + bytes("a").base64() + bytes("a").string()',
  'bytes(\'{"a": [1]}\').json()',
  '"a,b,c".split(",") == ["a", "b", "c"]',
  '"abc".split("")',
  '"a,b,c".split(",", 2)',
  '"a,b,c".split(",", 0)',
  '"a,b,c".split(",", 5)',
  '"a,b,c".split(",", -1)',
  '"aaa".split("aa")',
  '["a", "b"].join("-") + ["a"].join() + [].join("x")',
  'object.metadata.labels.map(key, key).join(",")',
  `${disks}.join(",")`,
  '"Añ".lowerAscii() + "b".upperAscii() + " c ".trim()',
  '"hello".indexOf("l") + "hello".lastIndexOf("l") + "hello".indexOf("l", 3)',
  '"hello".substring(1) + "hello".substring(1, 3)',
  '"hello".substring(9)',
  '"hello".contains("ell") && "hello".endsWith("lo")',
  'object.metadata.labels.startsWith("a")',
  'object.metadata.name.startsWith(1)',
  'timestamp(object.time).getFullYear() == 2026 && timestamp(object.time).getHours("Europe/Berlin") == 4',
  'timestamp(object.time) + duration("1h") > timestamp(object.time)',
  'timestamp(object.time) - timestamp(object.time) == duration("0s")',
  'timestamp("nonsense")',
  'duration(object.long).getMinutes() == 90',
  'duration("nonsense")',
  'quantity("1Gi").add(quantity("1Mi")).compareTo(quantity("1025Mi"))',
  'quantity("1.5").asInteger()',
  'quantity("x")',
  'google.protobuf.Timestamp == type(timestamp(object.time))',
])('%s has the result that the library gives', (expression) => {
  expect(environment.check(expression)).toMatchObject({ valid: true })
  expect(ours(expression)).toEqual(librarys(expression))
})

test('any expression has the result that the library gives', () => {
  fc.assert(
    fc.property(anyExpression, (expression) => {
      fc.pre(environment.check(expression).valid)
      expect({ expression, is: ours(expression) }).toEqual({ expression, is: librarys(expression) })
    }),
    { numRuns: 1000, maxSkipsPerRun: 100 },
  )
})

/** `string.indexOf(string, int)` → `.indexOf/2`. */
const keyOf = ({ name, receiverType, params }: { name: string; receiverType: unknown; params: readonly unknown[] }) =>
  `${receiverType === null ? '' : '.'}${name}/${params.length}`

test('every function of the library and every own function has a cost', () => {
  const known = new Set([...callCosts.keys(), ...macros.keys(), ...ownFunctions.keys(), 'has/1'])
  const functions = environment.getDefinitions().functions.map(keyOf)
  expect(functions.filter((key) => !known.has(key))).toEqual([])
  expect([...known].filter((key) => !functions.includes(key))).toEqual([])
})

test.each<[string, boolean | string]>([
  ['namespaceObject == null', true],
  ['request == null', 'Unknown variable: request'],
])('%s without a namespace and a request: %s', (expression, expected) => {
  const program = compileProgram(environment.parse(expression).ast)
  const run = () => program.run({ object: {}, request: undefined, namespaceObject: null }, unlimited())
  expect(outcomeOf(run)).toEqual(expected === true ? { value: true } : 'error')
})

test.each([
  ['object.matches("a{30}")', 64],
  ['object.matches("a" + "{30}")', 0],
  ['object.startsWith("a{30}")', 0],
  ['!object.matches("a{30}") && object.a.matches("b")', 69],
  ['-size(object.matches("a{30}") ? "a" : "b") == 1', 64],
  ['{"a": object.matches("a{30}")}.?a == [object.a.matches("b")]', 69],
])('%s has literal patterns of %i instructions', (expression, instructions) => {
  expect(Math.round(writtenInstructions(environment.parse(expression).ast))).toBe(instructions)
})

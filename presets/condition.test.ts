import { expect, test } from 'vitest'
import type { Condition } from './condition.ts'
import { celValue, compileCondition } from './condition.ts'
import { presetLimit } from './condition-budget.ts'
import type { Variables } from './condition-run.ts'

const object = {
  metadata: { name: 'vm', labels: { size: 'small' } },
  spec: {
    domain: { vcpu: { value: 4 }, devices: { disks: [{ target: { dev: 'vda' } }, { target: { dev: 'vdb' } }] } },
    volumes: [{ name: 'data', emptyDisk: { capacity: '2Gi' } }],
  },
}
const request = { userInfo: { username: 'jane', groups: ['devs'] }, operation: 'CREATE' }
const namespaceObject = { metadata: { name: 'team', labels: { tier: 'gold' } } }

let uses = 0
/** An expression with another number of spaces at its end, because equal expressions are compiled only once. */
const uncached = (expression: string): string => expression + ' '.repeat(uses++ % 1000)

const compiled = (expression: string): Condition => {
  const condition = compileCondition('test', uncached(expression))
  if ('fault' in condition) throw new Error(condition.fault)
  return condition
}

const evaluate = (expression: string, variables: Variables = review) =>
  compiled(expression).evaluate(variables, { ...presetLimit })

const review = {
  object: celValue(object),
  request: celValue(request),
  namespaceObject: celValue(namespaceObject),
}

test.each([
  ['object.metadata.labels.size == "small"', true],
  ['object.metadata.name == "other"', false],
  ['has(object.metadata.labels.size) && !has(object.metadata.labels.gone)', true],
  ['object.spec.domain.vcpu.value + 1 > 4', true],
  ['object.spec.domain.devices.disks.exists(d, d.target.dev == "vdb")', true],
  ['object.spec.domain.devices.disks.all(d, d.target.dev.matches("^vd[a-z]$"))', true],
  ['"devs" in request.userInfo.groups && request.operation == "CREATE"', true],
  ['namespaceObject.metadata.labels.tier in ["gold", "silver"]', true],
  ['quantity(object.spec.volumes[0].emptyDisk.capacity).isGreaterThan(quantity("1Gi"))', true],
  ['quantity("1Gi").compareTo(quantity("1024Mi")) == 0', true],
  ['quantity("1").compareTo(quantity("2")) == -1 && quantity("2").compareTo(quantity("1")) == 1', true],
  ['quantity("1").isGreaterThan(quantity("1")) || quantity("1").isLessThan(quantity("1"))', false],
  ['quantity("1500m").isInteger() || !quantity("2k").isInteger()', false],
  ['quantity("2k").asInteger() == 2000 && quantity("1500m").asApproximateFloat() == 1.5', true],
  ['quantity("1500m").sub(quantity("500m")).add(quantity("1")).asInteger() == 2', true],
  ['quantity("-1").sign() == -1 && quantity("0").sign() == 0 && quantity("1Ki").sign() == 1', true],
  ['isQuantity("12parsecs")', false],
  ['object.gone || true', true],
  ['false && object.gone', false],
])('%s is %s', (expression, isTrue) => {
  expect(evaluate(expression)).toEqual({ isTrue })
})

test.each([
  ['object.gone.deeper', 'No such key: gone'],
  ['object.constructor == 1', 'No such key: constructor'],
  ['object.metadata.name', 'is string, not true or false'],
  ['quantity(object.metadata.name).isInteger()', 'not a quantity: vm'],
  ['quantity("1500m").asInteger() == 1', 'the quantity is not a whole number'],
])('%s fails when evaluated: %s', (expression, error) => {
  expect(evaluate(expression)).toEqual({ error })
})

test.each([
  ['object.', 'Expected IDENTIFIER, got EOF'],
  ['1 + "a" == 2', 'no such overload: int + string'],
  ['vm.metadata.name == "a"', 'Unknown variable: vm'],
  ['"three"', 'must be true or false, not string'],
  ['object.metadata.name.matches("(")', 'invalid regular expression: ( (error parsing regexp: missing closing ): `(`)'],
  [
    'object.metadata.name.matches("(?=a)")',
    'invalid regular expression: (?=a) (error parsing regexp: invalid or unsupported Perl syntax: `(?=`)',
  ],
])('%s is refused when written: %s', (expression, fault) => {
  expect(compileCondition('test', uncached(expression))).toMatchObject({ fault })
})

const patternsFault =
  'its regular expressions have more than 5000 instructions, with each repetition written out: ' +
  'use smaller numbers in {}, or no Unicode classes together with (?i)'

const text = 'a'.repeat(60_000)
const texts = Array.from({ length: 2000 }, () => text)
const large = { ...review, object: celValue({ text, texts, disks: Array.from({ length: 3000 }, () => ({})) }) }

test('a pattern that would take the engine of JavaScript hours is fast', () => {
  const variables = { ...review, object: { metadata: { name: `${'a'.repeat(5000)}!` } } }
  expect(evaluate('object.metadata.name.matches("^(a+)+$")', variables)).toEqual({ isTrue: false })
})

test('a loop over a long list is evaluated', () => {
  expect(evaluate('object.disks.all(a, true)', large)).toEqual({ isTrue: true })
})

test.each<[string, string, 'steps' | 'bytes']>([
  ['loops in loops', 'object.disks.all(a, object.disks.all(b, object.disks.all(c, true)))', 'steps'],
  ['a large pattern on a long text', 'object.text.matches("^(a{1,30}){1,30}$")', 'steps'],
  ['the same for a list', 'object.texts.exists(t, t.matches("([a-z]?){300}[0-9]"))', 'steps'],
  ['a text that doubles', `[object.text]${'.map(a, a + a)'.repeat(12)}.size() == 1`, 'bytes'],
  ['a list that doubles', `[object.texts]${'.map(a, a + a)'.repeat(20)}.size() == 1`, 'bytes'],
  ['a long list of long texts, joined', 'object.texts.map(a, a).join("").size() > 1', 'bytes'],
  ['a text that is split into characters', 'object.texts.all(t, t.split("").size() > 1)', 'bytes'],
])('%s: evaluation stops', (_, expression, over) => {
  expect(evaluate(expression, large)).toEqual({ over })
})

test.each([
  ['repeats too much', '(a?){1000}'.repeat(30)],
  ['is too long', 'a'.repeat(100_001)],
  ['repeats what precedes flags', `(?:${'a'.repeat(480)}){1}(?s){1000}`],
  ['repeats a repetition of zero', 'a{0}{1000}{1000}{1000}{1000}'],
  ['compares large classes without regard to case', '(?i)[Ā-￿][Ā-￿]a{0}{1000}'],
])('a pattern that %s is refused when written, and not compiled', (_, pattern) => {
  expect(compileCondition('test', uncached(`object.metadata.name.matches("${pattern}")`))).toEqual({
    fault: patternsFault,
    instructions: 0,
  })
})

test('patterns that are too large together are refused before any is compiled', () => {
  const one = 'object.metadata.name.matches("(?:a{40}){40}")'
  expect(compileCondition('test', uncached(`${one} || ${one}`))).toEqual({ fault: patternsFault, instructions: 0 })
})

test.each([
  ['is larger than it seems', '"(?:" + "a{30}" + "){1}(?s){1000}"'],
  ['has a length below zero', '"a{0}{1000}{1000}{1000}{1000}" + ""'],
])('a pattern computed at run time that %s never adds to the budget', (_, pattern) => {
  const meter = { ...presetLimit }
  expect(compiled(`"a".matches(${pattern})`).evaluate(review, meter)).toEqual({ error: 'the pattern is too large' })
  expect(meter.steps).toBeLessThan(presetLimit.steps)
  expect(meter.bytes).toBeLessThanOrEqual(presetLimit.bytes)
})

test('a literal pattern can have as many instructions as the limit, and no more', () => {
  const instructionsOf = (pattern: string) =>
    compileCondition('test', uncached(`object.metadata.name.matches("${pattern}")`)).instructions
  const [largest, larger] = [1498, 1499].map((count) => `a{1000}${'b'.repeat(count)}`)
  expect([instructionsOf(largest ?? ''), instructionsOf(larger ?? '')]).toEqual([5000, 0])
})

test('an expression is compiled once', () => {
  const expression = uncached('object.metadata.name == "vm"')
  const conditions = ['one', 'other'].map((name) => compileCondition(name, expression))
  const [one, other] = conditions.map((condition) => ('fault' in condition ? undefined : condition.evaluate))
  expect(one).toBeDefined()
  expect(other).toBe(one)
})

const nest = (depth: number): unknown => JSON.parse('['.repeat(depth) + ']'.repeat(depth))

test.each([
  [
    'JSON nested deeply cannot be compared',
    'bytes(object.text).json() == bytes(object.text).json()',
    { text: '['.repeat(20_000) + ']'.repeat(20_000) },
    { error: 'values nested more than 100 deep cannot be compared' },
  ],
  [
    'JSON nested a little can be compared',
    'bytes(object.text).json() == bytes(object.text).json()',
    { text: '['.repeat(50) + ']'.repeat(50) },
    { isTrue: true },
  ],
  ['a value of a VM can be nested deeply', 'size(object.list) == 1', { list: nest(5000) }, { isTrue: true }],
  ['what is compared within is a part of it', 'object.list == [1]', { list: nest(5000) }, { isTrue: false }],
])('%s', (_, expression, value, result) => {
  expect(evaluate(expression, { ...review, object: celValue(value) })).toEqual(result)
})

test('a list of a VM that is nested more than 100 deep is replaced by a placeholder', () => {
  const depthOf = (value: unknown): number => (Array.isArray(value) ? 1 + depthOf(value[0]) : 0)
  expect([depthOf(celValue(nest(100))), depthOf(celValue(nest(101)))]).toEqual([100, 100])
  expect(celValue(null)).toBeNull()
})

test('a time zone longer than any name is refused before it is looked up', () => {
  const variables = { ...review, object: { zone: 'x'.repeat(250_000) } }
  expect(evaluate('timestamp(0).getHours(object.zone) == 1', variables)).toEqual({
    error: '.getHours() takes at most 64 characters',
  })
})

test('if a limit of JavaScript is reached, the evaluation fails rather than the request', () => {
  const object = {
    get name(): never {
      throw new RangeError('Maximum call stack size exceeded')
    },
  }
  expect(evaluate('object.name == "a"', { ...review, object })).toEqual({ error: 'Maximum call stack size exceeded' })
})

test.each([
  ['that matches', 'v.', { isTrue: true }],
  ['that does not', 'x', { isTrue: false }],
  ['that is none', '(', { error: 'error parsing regexp: missing closing ): `(`' }],
  ['that is too large', 'a{1000}', { error: 'the pattern is too large' }],
  ['that is too long', 'a'.repeat(1001), { error: 'the pattern is too large' }],
  ['with as many characters as the limit', '(?s)'.repeat(250), { isTrue: true }],
  ['with as many instructions as the limit', 'a{498}', { isTrue: false }],
  ['with more instructions than the limit', 'a{499}', { error: 'the pattern is too large' }],
])('a pattern from the object %s', (_, pattern, result) => {
  const variables = { ...review, object: { metadata: { name: 'vm' }, pattern } }
  expect(evaluate('object.metadata.name.matches(object.pattern)', variables)).toEqual(result)
})

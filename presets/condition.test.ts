import { expect, test } from 'vitest'
import type { Condition } from './condition.ts'
import { celValue, compileCondition } from './condition.ts'
import { presetLimit } from './condition-budget.ts'
import type { Variables } from './condition-program.ts'

const object = {
  metadata: { name: 'vm', labels: { size: 'small' } },
  spec: {
    domain: { vcpu: { value: 4 }, devices: { disks: [{ target: { dev: 'vda' } }, { target: { dev: 'vdb' } }] } },
    volumes: [{ name: 'data', emptyDisk: { capacity: '2Gi' } }],
  },
}
const request = { userInfo: { username: 'jane', groups: ['devs'] }, operation: 'CREATE' }
const namespaceObject = { metadata: { name: 'team', labels: { tier: 'gold' } } }

const compiled = (expression: string): Condition => {
  const condition = compileCondition('test', expression)
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
  ['quantity(object.metadata.name).isInteger()', 'no quantity: vm'],
])('%s fails when evaluated: %s', (expression, error) => {
  expect(evaluate(expression)).toEqual({ error })
})

test.each([
  ['object.', 'Expected IDENTIFIER, got EOF'],
  ['1 + "a" == 2', 'no such overload: int + string'],
  ['machine.metadata.name == "a"', 'Unknown variable: machine'],
  ['"three"', 'must be true or false, not string'],
  ['object.metadata.name.matches("(")', 'no regular expression: ( (error parsing regexp: missing closing ): `(`)'],
  [
    'object.metadata.name.matches("(?=a)")',
    'no regular expression: (?=a) (error parsing regexp: invalid or unsupported Perl syntax: `(?=`)',
  ],
])('%s is refused when written: %s', (expression, fault) => {
  expect(compileCondition('test', expression)).toEqual({ fault })
})

const text = 'a'.repeat(60_000)
const texts = Array.from({ length: 2000 }, () => text)
const large = { ...review, object: celValue({ text, texts, disks: Array.from({ length: 3000 }, () => ({})) }) }

test('a pattern that would keep JavaScript busy for hours takes no time', () => {
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
])('a pattern that %s is refused when written', (_, pattern) => {
  expect(compileCondition('test', `object.metadata.name.matches("${pattern}")`)).toEqual({
    fault: `no regular expression: ${pattern.slice(0, 100)} (too large)`,
  })
})

test.each([
  ['that matches', 'v.', { isTrue: true }],
  ['that does not', 'x', { isTrue: false }],
  ['that is none', '(', { error: 'error parsing regexp: missing closing ): `(`' }],
  ['that is too large', 'a{1000}', { error: 'the pattern is too large' }],
  ['that is too long', 'a'.repeat(1001), { error: 'the pattern is too large' }],
])('a pattern of the object %s', (_, pattern, result) => {
  const variables = { ...review, object: { metadata: { name: 'vm' }, pattern } }
  expect(evaluate('object.metadata.name.matches(object.pattern)', variables)).toEqual(result)
})

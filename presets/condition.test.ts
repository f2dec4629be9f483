import { expect, test } from 'vitest'
import type { Condition } from './condition.ts'
import { celValue, compileCondition, sizeOf } from './condition.ts'

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

const review = {
  object: celValue(object),
  request: celValue(request),
  namespaceObject: celValue(namespaceObject),
  size: sizeOf([object, request, namespaceObject]),
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
  expect(compiled(expression).evaluate(review)).toEqual({ isTrue })
})

test.each([
  ['object.gone.deeper', 'No such key: gone'],
  ['object.constructor == 1', 'No such key: constructor'],
  ['object.metadata.name', 'is string, not true or false'],
  ['quantity(object.metadata.name).isInteger()', 'no quantity: vm'],
])('%s fails when evaluated: %s', (expression, error) => {
  expect(compiled(expression).evaluate(review)).toEqual({ error })
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

test('a pattern that would keep JavaScript busy for hours takes no time', () => {
  const name = `${'a'.repeat(5000)}!`
  const hostile = { ...review, object: { metadata: { name } }, size: sizeOf([name]) }
  expect(compiled('object.metadata.name.matches("^(a+)+$")').evaluate(hostile)).toEqual({ isTrue: false })
})

test('an expression that could run for long on an object is not run', () => {
  const disks = Array.from({ length: 3000 }, () => ({}))
  const large = { object: { disks }, request: {}, namespaceObject: {}, size: sizeOf([disks]) }
  const expression = 'object.disks.all(a, object.disks.all(b, object.disks.all(c, true)))'
  expect(compiled(expression).evaluate(large)).toEqual({ error: 'would cost too much on an object of this size' })
  expect(compiled('object.disks.all(a, true)').evaluate(large)).toEqual({ isTrue: true })
})

const text = 'a'.repeat(100_000)
const long = { ...review, object: { text, texts: Array.from({ length: 2000 }, () => text) }, size: sizeOf([[text]]) }

test.each([
  ['a large pattern on a long text', 'object.text.matches("^(a{1,30}){1,30}$")'],
  ['a pattern that is a part of the object', 'object.text.matches(object.text)'],
  ['a text that doubles with each loop', `[object.text]${'.map(a, a + a)'.repeat(12)}.size() == 1`],
  ['a list that doubles with each loop', `[object.texts]${'.map(a, a + a)'.repeat(20)}.size() == 1`],
  ['a long list of long texts joined', 'object.texts.map(a, a).join("").size() > 1'],
])('%s is not run', (_, expression) => {
  const size = sizeOf([long.object])
  expect(compiled(expression).evaluate({ ...long, size })).toEqual({
    error: 'would cost too much on an object of this size',
  })
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
  const object = { metadata: { name: 'vm' }, pattern }
  const found = { ...review, object, size: sizeOf([object]) }
  expect(compiled('object.metadata.name.matches(object.pattern)').evaluate(found)).toEqual(result)
})

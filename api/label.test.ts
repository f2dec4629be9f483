import { describe, expect, test } from 'vitest'
import {
  checkLabels,
  checkSelector,
  cutName,
  isDnsLabel,
  isDnsSubdomain,
  isLabelValue,
  isQualifiedName,
  keyPrefix,
} from './label.ts'
import type { LabelSelector } from './object.ts'

describe('syntax', () => {
  test.each([
    ['a DNS label', isDnsLabel, ['a', 'a-1', '1a', 'a'.repeat(63)], ['', 'A', 'a.b', '-a', 'a-', 'a'.repeat(64), 'ä']],
    [
      'a DNS subdomain',
      isDnsSubdomain,
      ['a', 'a.b-c', `${'a'.repeat(250)}.bc`],
      ['', 'a..b', '.a', 'A', 'a'.repeat(254)],
    ],
    ['a qualified name', isQualifiedName, ['a', 'A_b.c', 'x.io/a', '1'], ['', '/a', 'x/', 'X/a', 'a/b/c', 'a b', '_a']],
    ['a label value', isLabelValue, ['', 'a', 'A_b.c-1', 'a'.repeat(63)], ['-a', 'a_', 'a b', 'a'.repeat(64), 'a/b']],
  ])('%s', (_, holds, good, bad) => {
    expect(good.filter((text) => !holds(text))).toEqual([])
    expect(bad.filter((text) => holds(text))).toEqual([])
  })

  test.each([
    ['virtset.io/vm-uid', 'virtset.io'],
    ['app', ''],
    ['/app', ''],
  ])('the prefix of %s is %j', (key, prefix) => expect(keyPrefix(key)).toBe(prefix))
})

test('labels name each key and value that is wrong', () => {
  expect(checkLabels({ app: 'x', 'a b': '-' }, 'metadata.labels').map(({ rule, field }) => [rule, field])).toEqual([
    ['label-key', 'metadata.labels[a b]'],
    ['label-value', 'metadata.labels[a b]'],
  ])
})

describe('a selector', () => {
  const problems = (selector: LabelSelector) =>
    checkSelector(selector, 'spec.selector').map(({ field, reason }) => [field.replace('spec.selector', ''), reason])

  test.each<[string, LabelSelector, string[][]]>([
    ['empty', {}, []],
    [
      'of every kind',
      { matchLabels: { a: 'b' }, matchExpressions: [{ key: 'c', operator: 'In', values: ['d', ''] }] },
      [],
    ],
    ['Exists without values', { matchExpressions: [{ key: 'c', operator: 'Exists' }] }, []],
    [
      'In without values',
      { matchExpressions: [{ key: 'c', operator: 'In', values: [] }] },
      [['.matchExpressions[0].values', 'FieldValueRequired']],
    ],
    [
      'DoesNotExist with values',
      { matchExpressions: [{ key: 'c', operator: 'DoesNotExist', values: ['d'] }] },
      [['.matchExpressions[0].values', 'FieldValueForbidden']],
    ],
    [
      'wrong in every place',
      { matchLabels: { '': '!' }, matchExpressions: [{ key: '/', operator: 'NotIn', values: ['a', 'b c'] }] },
      [
        ['.matchLabels[]', 'FieldValueInvalid'],
        ['.matchLabels[]', 'FieldValueInvalid'],
        ['.matchExpressions[0].key', 'FieldValueInvalid'],
        ['.matchExpressions[0].values[1]', 'FieldValueInvalid'],
      ],
    ],
  ])('%s', (_, selector, expected) => expect(problems(selector)).toEqual(expected))
})

test('a cut name has no punctuation at its end', () => {
  expect([cutName('web.shop', 8), cutName('web.shop', 4), cutName('web-.-shop', 6)]).toEqual(['web.shop', 'web', 'web'])
})

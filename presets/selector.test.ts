import { describe, expect, test } from 'vitest'
import type { LabelSelector } from '../api/object.ts'
import {
  commonLabels,
  compileSelector,
  compileStoredSelector,
  isSelected,
  type Labels,
  requirementText,
  selectorText,
  unmetRequirement,
} from './selector.ts'

const where = (...matchExpressions: NonNullable<LabelSelector['matchExpressions']>): LabelSelector => ({
  matchExpressions,
})
const size = (value: string): LabelSelector => ({ matchLabels: { size: value } })
const oneOf = (...values: string[]) => where({ key: 'size', operator: 'In', values })
const noneOf = (...values: string[]) => where({ key: 'size', operator: 'NotIn', values })
const has = where({ key: 'size', operator: 'Exists' })
const hasNot = where({ key: 'size', operator: 'DoesNotExist' })

describe('a selector matches labels', () => {
  test.each<[string, LabelSelector, Labels, boolean]>([
    ['without requirements, any', {}, {}, true],
    ['by value', size('small'), { size: 'small' }, true],
    ['not with another value', size('small'), { size: 'large' }, false],
    ['not without the label', size('small'), {}, false],
    ['not by an inherited property', where({ key: 'constructor', operator: 'Exists' }), {}, false],
    ['by one of several values', oneOf('a', 'b'), { size: 'b' }, true],
    ['by none of several values', noneOf('a', 'b'), { size: 'c' }, true],
    ['not by one of those', noneOf('a', 'b'), { size: 'b' }, false],
    ['by none of several values, without the label', noneOf('a'), {}, true],
    ['that have a key', has, { size: '' }, true],
    ['not without the key', has, {}, false],
    ['without a key', hasNot, {}, true],
    ['not with the key', hasNot, { size: '' }, false],
    [
      'only if all requirements are met',
      { ...size('small'), ...where({ key: 'app', operator: 'Exists' }) },
      { size: 'small' },
      false,
    ],
  ])('%s', (_, selector, labels, expected) => {
    const compiled = compileSelector(selector)
    expect([isSelected(compiled, labels), unmetRequirement(compiled, labels) === undefined]).toEqual([
      expected,
      expected,
    ])
  })

  test('the first requirement that is not met explains why not', () => {
    const compiled = compileSelector({ matchLabels: { app: 'web', size: 'small', tier: 'gold' } })
    expect(unmetRequirement(compiled, { app: 'web', tier: 'silver' })?.key).toBe('size')
  })
})

test.each<[LabelSelector, string]>([
  [{}, 'every VM'],
  [size('small'), 'size=small'],
  [oneOf('a'), 'size=a'],
  [oneOf('a', 'b'), 'size in (a,b)'],
  [noneOf('a', 'b'), 'size notin (a,b)'],
  [has, 'size'],
  [hasNot, '!size'],
  [{ ...size('small'), ...where({ key: 'app', operator: 'Exists' }) }, 'size=small,app'],
])('%j is formatted as by kubectl', (selector, text) => {
  const compiled = compileSelector(selector)
  expect(selectorText(compiled)).toBe(text)
  expect(compiled.requirements.map(requirementText).join() || 'every VM').toBe(text)
})

test('a stored selector is compiled once', () => {
  const [one, same] = [size('small'), size('small')]
  expect(compileStoredSelector(one)).toBe(compileStoredSelector(one))
  expect(compileStoredSelector(one) === compileStoredSelector(same)).toBe(false)
  expect(compileStoredSelector(one)).toEqual(compileSelector(one))
})

describe('labels that several selectors match', () => {
  test.each<[string, LabelSelector[], Labels | undefined]>([
    ['none are needed', [{}, {}], {}],
    ['each value', [size('small'), { matchLabels: { app: 'web' } }], { size: 'small', app: 'web' }],
    ['a value that both allow', [oneOf('a', 'b'), oneOf('c', 'b')], { size: 'b' }],
    ['no value', [size('a'), size('b')], undefined],
    ['a value that none forbids', [oneOf('a', 'b'), noneOf('a')], { size: 'b' }],
    ['no value that none forbids', [oneOf('a'), noneOf('a')], undefined],
    ['any value', [has], { size: 'any' }],
    ['any value that is not forbidden', [has, noneOf('any', 'any-1')], { size: 'any-2' }],
    ['no label where it may be missing', [noneOf('a')], {}],
    ['no label where it must be missing', [hasNot, noneOf('a')], {}],
    ['a label that must and must not be there', [has, hasNot], undefined],
  ])('%s', (_, selectors, expected) => expect(commonLabels(selectors.map(compileSelector))).toEqual(expected))
})

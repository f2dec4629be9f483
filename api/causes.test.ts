import { expect, test } from 'vitest'
import type { Cause } from './cause.ts'
import { capCauses, isCapped, listCauses, maxCauses, noCauses, report } from './causes.ts'

const cause = (field: string): Cause => ({ rule: 'type', field, reason: 'FieldValueInvalid', message: 'is wrong' })

const many = (count: number) => Array.from({ length: count }, (_, index) => cause(`field${index}`))

const counted = (value: number, field: string): Cause => ({
  rule: 'too-many-faults',
  field,
  value,
  reason: 'FieldValueTooMany',
  message: 'more faults are not listed',
  suggestion: 'fix the ones above first',
})

test('causes beyond the limit are counted, and never made', () => {
  const causes = noCauses()
  let made = 0
  for (const one of many(maxCauses + 3)) {
    report(causes, () => {
      made += 1
      return one
    })
  }
  expect(made).toBe(maxCauses)
  expect(listCauses(causes, 'spec')).toEqual([...many(maxCauses), counted(3, 'spec')])
})

test('causes within the limit are unchanged', () => {
  expect(capCauses(many(maxCauses), 'spec')).toEqual(many(maxCauses))
  expect(isCapped(many(maxCauses))).toBe(false)
})

test('causes that several checks did not list are added up', () => {
  const first = [...many(maxCauses), counted(5, 'spec.domain')]
  const capped = capCauses([...first, ...many(2)], 'spec')
  expect(capped).toEqual([...many(maxCauses), counted(7, 'spec')])
  expect(isCapped(capped)).toBe(true)
})

test('a capped check is combined with complete ones', () => {
  const few = [...many(2), counted(5, 'spec.domain')]
  expect(capCauses([...few, ...many(maxCauses)], 'spec')).toEqual([
    ...many(2),
    ...many(maxCauses).slice(0, maxCauses - 2),
    counted(7, 'spec'),
  ])
})

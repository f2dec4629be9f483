import { describe, expect, test } from 'vitest'
import { canonical } from '../../api/domain/canonical.ts'
import { complete, difference, parse, readCases } from '../corpus/corpus.ts'
import known from '../corpus/known-differences.json' with { type: 'json' }

const folder = process.env['LIBVIRT_CORPUS']
const cases = folder === undefined ? [] : readCases(folder)
const leftOut =
  folder === undefined
    ? ', left out: LIBVIRT_CORPUS is not set; test/corpus/corpus.ts says how to make it from the source of libvirt'
    : ''

describe(`libvirt's own cases${leftOut}`, () => {
  test('a domain is completed as libvirt completes it, but for a list of known differences that may only shrink', () => {
    const different = cases.filter(({ before, after }) => difference(before, after)).map(({ name }) => name)
    const expected = Object.keys(known).filter((name) => cases.some((one) => one.name === name))
    expect(different).toEqual(expected)
  })

  test('what libvirt has completed is complete', () => {
    const different = cases.filter(({ after }) => difference(after, after)).map(({ name }) => name)
    expect(different).toEqual([])
  })

  test.each(cases)('$name: completing again adds nothing, and nothing that was written is changed', ({ before }) => {
    const domain = parse(before)
    const untouched = structuredClone(domain)
    const once = complete(domain)
    expect(domain).toEqual(untouched)
    expect(changes(untouched, once, '')).toEqual([])
    expect(complete(once)).toEqual(once)
  })

  test.each(cases)('$name: the canonical domain is complete where the domain is', ({ before }) => {
    const once = canonical(complete(parse(before)))
    expect(canonical(complete(once))).toEqual(once)
  })
})

/** The paths at which `after` does not have what `before` has; lists may only have become longer, and an empty text asks for one. */
const changes = (before: unknown, after: unknown, path: string): string[] => {
  if (before === '' || before === after) return []
  if (typeof before !== 'object' || before === null || typeof after !== 'object' || after === null) return [path]
  const later = new Map(Object.entries(after))
  return Object.entries(before).flatMap(([key, value]) => changes(value, later.get(key), `${path}.${key}`))
}

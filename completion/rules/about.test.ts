import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Origin } from '../../api/cause.ts'
import { canonicalSpelling } from '../../api/domain/canonical.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { plausibleDomains } from '../../test/arbitraries/plausible.ts'
import { bundledCapabilities as capabilities } from '../capabilities.ts'
import { indexRules, keysWithin } from './about.ts'
import type { Rule, Subject } from './rule.ts'
import { rules } from './rules.ts'
import { warnings } from './warnings.ts'

const user: Origin = { by: 'user' }
const all: readonly (Pick<Rule, 'id' | 'about' | 'example'> & { check: (subject: Subject) => Iterable<unknown> })[] = [
  ...rules,
  ...warnings,
]
const allAbout = indexRules(all)

/** The IDs of rules that would be skipped for a spec although they find something. */
const missed = (spec: VirtualMachineSpec): string[] => {
  const domain = canonicalSpelling(spec.domain)
  const keys = keysWithin(domain)
  const subject: Subject = {
    spec,
    domain,
    capabilities,
    originOf: () => user,
    isGranted: () => false,
    isMacTaken: () => true,
  }
  const asked = new Set(allAbout(keys))
  return all.filter((rule) => !asked.has(rule) && [...rule.check(subject)].length > 0).map(({ id }) => id)
}

test('the keys of an object include those of nested objects', () => {
  expect([...keysWithin({ a: { b: 1 }, c: [{ d: [] }, 'e', [{ f: null }]] })]).toEqual(['a', 'b', 'c', 'd', 'f'])
})

test('rules run in their order: those about an existing key, and those without keys', () => {
  const some = [{ about: ['x', 'a'] }, {}, { about: ['x'] }, { about: ['b', 'a'] }, { about: [] }]
  expect(indexRules(some)(new Set(['b', 'a']))).toEqual([some[0], some[1], some[3]])
})

test('a skipped rule would find nothing in the examples of all rules', () => {
  const specs = all.flatMap(({ example: { breaks, holds } }) => [breaks, holds])
  expect(specs.map(missed).filter((ids) => ids.length > 0)).toEqual([])
})

test('a skipped rule would find nothing in plausible domains', () =>
  fc.assert(
    fc.property(plausibleDomains(), (domain) => {
      expect(missed({ domain })).toEqual([])
    }),
    { numRuns: 300 },
  ))

import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Origin } from '../../api/cause.ts'
import { canonicalSpelling } from '../../api/domain/canonical.ts'
import type { MachineSpec } from '../../api/machine.ts'
import { plausibleDomains } from '../../test/arbitraries/plausible.ts'
import { bundledCapabilities as capabilities } from '../capabilities.ts'
import { concerns, keysWithin } from './about.ts'
import type { Subject } from './rule.ts'
import { rules } from './rules.ts'
import { warnings } from './warnings.ts'

const user: Origin = { by: 'user' }
const all = [...rules, ...warnings]

/** The ids of rules that would not be asked about a spec, though they have something to say. */
const missed = (spec: MachineSpec): string[] => {
  const domain = canonicalSpelling(spec.domain)
  const keys = keysWithin(domain)
  const subject: Subject = {
    spec,
    domain,
    capabilities,
    originOf: () => user,
    allowHostReach: false,
    isMacTaken: () => true,
  }
  return all.filter((rule) => !concerns(rule, keys) && [...rule.check(subject)].length > 0).map(({ id }) => id)
}

test('the keys of an object are those of all that it holds', () => {
  expect([...keysWithin({ a: { b: 1 }, c: [{ d: [] }, 'e', [{ f: null }]] })]).toEqual(['a', 'b', 'c', 'd', 'f'])
})

test.each([
  ['nothing', undefined, true],
  ['what is there', ['x', 'a'], true],
  ['what is not there', ['x'], false],
])('a rule about %s', (_, about, expected) => {
  expect(concerns(about === undefined ? {} : { about }, new Set(['a']))).toBe(expected)
})

test("a rule that is not asked has nothing to say: of all rules' examples", () => {
  const specs = all.flatMap(({ example: { breaks, holds } }) => [breaks, holds])
  expect(specs.map(missed).filter((ids) => ids.length > 0)).toEqual([])
})

test('a rule that is not asked has nothing to say: of what somebody might write', () =>
  fc.assert(
    fc.property(plausibleDomains(), (domain) => {
      expect(missed({ domain })).toEqual([])
    }),
    { numRuns: 300 },
  ))

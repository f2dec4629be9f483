import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { mutants } from '../arbitraries/mutant.ts'
import { plausibleDomains } from '../arbitraries/plausible.ts'
import { readOwnCases, wholeDomain } from '../corpus/cases.ts'
import { parse, readCases } from '../corpus/corpus.ts'
import { firstDifference } from '../corpus/difference.ts'
import { answerOf } from './answer.ts'
import { compare, complete, printed, withoutNames } from './disagreement.ts'
import { hasKvm, isComparable, type Oracle, startOracle } from './oracle.ts'
import list from './known-disagreements.json' with { type: 'json' }

/** The known disagreements. Entries are only removed from the list. */
const known: {
  readonly corpus: {
    /** By libvirt's message, without names. */
    readonly refused: { readonly [message: string]: { readonly reason: string; readonly names: readonly string[] } }
    readonly changed: { readonly [name: string]: { readonly reason: string; readonly path: string } }
  }
  readonly generated: readonly {
    readonly kind: string
    readonly signature: string
    readonly reason: string
    /** The smallest known one. */
    readonly example: unknown
  }[]
} = list

let oracle: Oracle

beforeAll(async () => {
  oracle = await startOracle()
})

afterAll(() => oracle.stop())

const folder = process.env['LIBVIRT_CORPUS']
const all = folder === undefined ? [] : readCases(folder).map((one) => ({ ...one, domain: parse(one.before) }))
const cases = all.filter(({ domain }) => isComparable(domain))
const leftOut =
  folder === undefined
    ? ', left out: LIBVIRT_CORPUS is not set'
    : hasKvm
      ? ''
      : `, without ${all.length - cases.length} of type kvm, because this host has no KVM`

describe(`libvirt's own cases${leftOut}`, () => {
  test('libvirt neither changes nor refuses completed domains, except for known disagreements', async () => {
    const changed: { [name: string]: string } = {}
    const refused: { [message: string]: string[] } = {}
    for (const { name, domain } of cases) {
      const ours = printed(complete(domain, oracle.capabilities), oracle.capabilities)
      const result = await oracle.define(ours)
      if (result.outcome === 'refused') (refused[withoutNames(result.message)] ??= []).push(name)
      else {
        const difference = firstDifference(result.xml, ours)
        if (difference) changed[name] = difference.path.replaceAll(/\[\d+\]/g, '')
      }
    }
    const unchanged = cases.length - Object.keys(changed).length - Object.values(refused).flat().length
    process.stdout.write(`libvirt's own cases: ${unchanged} of ${cases.length} defined and unchanged\n`)
    const compared = new Set(cases.map(({ name }) => name))
    const expected = Object.entries(known.corpus.refused)
      .map(([message, { names }]) => [message, names.filter((name) => compared.has(name))] as const)
      .filter(([, names]) => names.length > 0)
    expect({ refused, changed }).toEqual({
      refused: Object.fromEntries(expected),
      changed: Object.fromEntries(
        Object.entries(known.corpus.changed)
          .filter(([name]) => compared.has(name))
          .map(([name, { path }]) => [name, path]),
      ),
    })
  }, 120_000)
})

test('our own cases get the recorded answers; otherwise run `npm run record-cases`', async () => {
  const changed: string[] = []
  for (const one of readOwnCases().filter((each) => isComparable(wholeDomain(each)))) {
    const { stored, refused } = await answerOf(wholeDomain(one), oracle)
    if (stored !== one.stored || refused !== one.refused) changed.push(one.name)
  }
  expect(changed).toEqual([])
}, 180_000)

describe('generated domains', () => {
  const keys = new Set(known.generated.map(keyOf))

  test.each(known.generated.filter(({ example }) => isComparable(example as Domain)))(
    'known disagreement still exists: $kind $signature',
    async (one) => {
      const { disagreement } = await compare(one.example as Domain, oracle)
      expect(disagreement === undefined ? 'solved: take it off the list' : keyOf(disagreement)).toBe(keyOf(one))
    },
  )

  test('libvirt and completion add the same defaults to plausible domains, or both refuse them', async () => {
    const generated = fc.sample(plausibleDomains(), { seed: 20_261_121, numRuns: 1000 })
    const { taken, refused, found } = await ask(generated)
    process.stdout.write(`plausible: both take ${taken}, both refuse ${refused}, known disagreements ${found.size}\n`)
    expect(
      [...found].filter(([key]) => !keys.has(key)).map(([key, example]) => [key, JSON.stringify(example)]),
    ).toEqual([])
    expect(taken).toBeGreaterThan(0.6 * generated.filter(isComparable).length)
  }, 180_000)

  test('domains near libvirt’s own cases get libvirt’s defaults if both accept them', async () => {
    const near = all.map(({ domain }) => domain)
    const generated = near.length === 0 ? [] : fc.sample(mutants(near), { seed: 20_261_121, numRuns: 600 })
    const { taken, refused, found } = await ask(generated)
    process.stdout.write(`near libvirt's own cases: both take ${taken}, both refuse ${refused}\n`)
    // Cases that libvirt refuses are not tested here.
    const others = [...found].filter(([key]) => !key.startsWith('missing-rule') && !key.startsWith('false-refusal'))
    expect(others.filter(([key]) => !keys.has(key)).map(([key, example]) => [key, JSON.stringify(example)])).toEqual([])
  }, 180_000)

  async function ask(generated: readonly Domain[]) {
    const count = { taken: 0, refused: 0, unsettled: 0 }
    const found = new Map<string, Domain>()
    for (const domain of generated.filter(isComparable)) {
      const { outcome, disagreement } = await compare(domain, oracle)
      if (outcome !== 'disagreed') count[outcome] += 1
      else found.set(keyOf(disagreement), domain)
    }
    return { ...count, found }
  }
})

function keyOf({ kind, signature }: { kind: string; signature: string }): string {
  return `${kind}: ${signature}`
}

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
import { type Oracle, startOracle } from './oracle.ts'
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

describe(`libvirt's own cases${folder === undefined ? ', left out: LIBVIRT_CORPUS is not set' : ''}`, () => {
  test('libvirt neither changes nor refuses completed domains, except for known disagreements', async () => {
    const changed: { [name: string]: string } = {}
    const refused: { [message: string]: string[] } = {}
    const cases = folder === undefined ? [] : readCases(folder)
    for (const { name, before } of cases) {
      const ours = printed(complete(parse(before), oracle.capabilities), oracle.capabilities)
      const result = await oracle.define(ours)
      if (result.outcome === 'refused') (refused[withoutNames(result.message)] ??= []).push(name)
      else {
        const difference = firstDifference(result.xml, ours)
        if (difference) changed[name] = difference.path.replaceAll(/\[\d+\]/g, '')
      }
    }
    const unchanged = cases.length - Object.keys(changed).length - Object.values(refused).flat().length
    process.stdout.write(`libvirt's own cases: ${unchanged} of ${cases.length} defined and unchanged\n`)
    const expected = cases.length === 0 ? { refused: {}, changed: {} } : known.corpus
    expect({ refused, changed }).toEqual({
      refused: Object.fromEntries(Object.entries(expected.refused).map(([message, { names }]) => [message, names])),
      changed: Object.fromEntries(Object.entries(expected.changed).map(([name, { path }]) => [name, path])),
    })
  }, 120_000)
})

test('our own cases get the recorded answers; otherwise run `npm run record-cases`', async () => {
  const changed: string[] = []
  for (const one of readOwnCases()) {
    const { stored, refused } = await answerOf(wholeDomain(one), oracle)
    if (stored !== one.stored || refused !== one.refused) changed.push(one.name)
  }
  expect(changed).toEqual([])
}, 180_000)

describe('generated domains', () => {
  const keys = new Set(known.generated.map(keyOf))

  test.each(known.generated)('known disagreement still exists: $kind $signature', async (one) => {
    const { disagreement } = await compare(one.example as Domain, oracle)
    expect(disagreement === undefined ? 'solved: take it off the list' : keyOf(disagreement)).toBe(keyOf(one))
  })

  test('libvirt and completion add the same defaults to plausible domains, or both refuse them', async () => {
    const { taken, refused, found } = await ask(fc.sample(plausibleDomains(), { seed: 20_261_121, numRuns: 1000 }))
    process.stdout.write(`plausible: both take ${taken}, both refuse ${refused}, known disagreements ${found.size}\n`)
    expect(
      [...found].filter(([key]) => !keys.has(key)).map(([key, example]) => [key, JSON.stringify(example)]),
    ).toEqual([])
    expect(taken).toBeGreaterThan(600)
  }, 180_000)

  test('domains near libvirt’s own cases get libvirt’s defaults if both accept them', async () => {
    const near = folder === undefined ? [] : readCases(folder).map(({ before }) => parse(before))
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
    for (const domain of generated) {
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

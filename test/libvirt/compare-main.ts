/**
 * `npm run compare -- [--seed N] [--count N] [--mutants|--rules] [--brief]`: completes generated domains, asks the
 * libvirt in LIBVIRT_ROOTFS about them, and prints each kind of disagreement, the most frequent first, with the
 * smallest domain that shows it (the first one with `--brief`). `--mutants`: domains near the cases in LIBVIRT_CORPUS.
 * `--rules`: domains near the examples of our rules and our own cases. `npm run compare -- --prune` removes from
 * known-disagreements.json the disagreements that no longer exist.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import fc from 'fast-check'
import type { Domain } from '../../api/domain/domain.ts'
import { rules } from '../../completion/rules/rules.ts'
import { mutants } from '../arbitraries/mutant.ts'
import { neighbors } from '../arbitraries/neighbor.ts'
import { plausibleDomains } from '../arbitraries/plausible.ts'
import { readOwnCases, wholeDomain } from '../corpus/cases.ts'
import { parse, readCases } from '../corpus/corpus.ts'
import { type Disagreement, compare, shrink, startFault } from './disagreement.ts'
import { type Oracle, startOracle } from './oracle.ts'
import known from './known-disagreements.json' with { type: 'json' }

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    count: { type: 'string', default: '1000' },
    mutants: { type: 'boolean', default: false },
    rules: { type: 'boolean', default: false },
    /** The first domain of each kind, not the smallest. */
    brief: { type: 'boolean', default: false },
    prune: { type: 'boolean', default: false },
  },
})
const oracle = await startOracle()
if (values.prune) await prune(oracle)
else await search(oracle)
await oracle.stop()

function arbitrary(): fc.Arbitrary<Domain> {
  if (values.rules) {
    const examples = rules.flatMap(({ example: { breaks, holds } }) => [breaks, holds])
    return neighbors([...examples, ...readOwnCases()].map(wholeDomain))
  }
  if (!values.mutants) return plausibleDomains()
  const folder = process.env['LIBVIRT_CORPUS']
  if (folder === undefined) throw new Error('LIBVIRT_CORPUS is not set: see test/corpus/corpus.ts')
  return mutants(readCases(folder).map(({ before }) => parse(before)))
}

async function search(oracle: Oracle): Promise<void> {
  const generated = fc.sample(arbitrary(), {
    seed: Number(values.seed),
    numRuns: Number(values.count),
  })
  const agreed = { taken: 0, refused: 0, unsettled: 0 }
  const found = new Map<string, { count: number; example: Domain; disagreement: Disagreement }>()
  for (const domain of generated) {
    const { outcome, disagreement } = await compare(domain, oracle)
    if (outcome !== 'disagreed') {
      agreed[outcome] += 1
      continue
    }
    const key = `${disagreement.kind}: ${disagreement.signature}`
    const known = found.get(key)
    if (known) known.count += 1
    else found.set(key, { count: 1, example: domain, disagreement })
  }
  const byKind = Map.groupBy(found.values(), ({ disagreement: { kind } }) => kind)
  for (const [key, { count, example }] of [...found].toSorted(([, a], [, b]) => b.count - a.count)) {
    const isSame = async (domain: Domain): Promise<boolean> => {
      const { disagreement } = await compare(domain, oracle)
      return disagreement !== undefined && `${disagreement.kind}: ${disagreement.signature}` === key
    }
    const smallest = values.brief ? example : await shrink(example, isSame)
    const { disagreement } = await compare(smallest, oracle)
    process.stdout.write(`${count} × ${key}\n    ${disagreement?.detail.replaceAll(/\s+/g, ' ')}\n`)
    if (disagreement?.kind === 'false-refusal')
      process.stdout.write(
        `    start: ${(await startFault(smallest, oracle))?.replaceAll(/\s+/g, ' ') ?? 'succeeds'}\n`,
      )
    process.stdout.write(`    ${JSON.stringify(smallest)}\n`)
  }
  process.stdout.write(
    `${generated.length} domains: both take ${agreed.taken}, both refuse ${agreed.refused}, libvirt does not settle ${agreed.unsettled}\n`,
  )
  for (const [kind, all] of byKind) {
    process.stdout.write(`${kind}: ${all.reduce((sum, { count }) => sum + count, 0)} in ${all.length} ways\n`)
  }
}

async function prune(oracle: Oracle): Promise<void> {
  const generated: (typeof known.generated)[number][] = []
  for (const one of known.generated) {
    const { disagreement } = await compare(one.example as Domain, oracle)
    if (disagreement?.kind === one.kind && disagreement.signature === one.signature) generated.push(one)
    else process.stdout.write(`solved: ${one.kind} ${one.signature}\n`)
  }
  await writeFile(
    join(import.meta.dirname, 'known-disagreements.json'),
    `${JSON.stringify({ ...known, generated }, null, 2)}\n`,
  )
}

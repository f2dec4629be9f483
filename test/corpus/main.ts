/**
 * `npm run corpus`: completes every case of LIBVIRT_CORPUS and prints the differences from libvirt's results, the most
 * common causes first.
 */
import { complete, difference, parse, readCases } from './corpus.ts'
import { writeDomain } from '../../api/domain/xml.ts'
import { canonical } from '../../api/domain/canonical.ts'
import { shorten } from '../../api/shorten.ts'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const folder = process.env['LIBVIRT_CORPUS']
const [results] = process.argv.slice(2)
if (folder === undefined) {
  process.stderr.write(
    'LIBVIRT_CORPUS is not set: see test/corpus/corpus.ts for how to make such a folder from the source of libvirt\n',
  )
  process.exit(2)
}
const known: { readonly [name: string]: string } = JSON.parse(
  readFileSync(join(import.meta.dirname, 'known-differences.json'), 'utf8'),
)
const cases = readCases(folder)
const byCause = new Map<string, string[]>()
let equal = 0
for (const { name, before, after } of cases) {
  if (results !== undefined) {
    mkdirSync(results, { recursive: true })
    writeFileSync(join(results, `${name}.xml`), writeDomain(canonical(complete(parse(before)))))
  }
  const found = difference(before, after)
  if (!found) {
    equal += 1
    continue
  }
  const cause = known[name] ?? found.path.replaceAll(/\[\d+\]/g, '')
  const line = `${name}: ${found.path}: expected ${found.expected ?? 'nothing'}, got ${found.actual ?? 'nothing'}`
  byCause.set(cause, [...(byCause.get(cause) ?? []), line])
}
for (const [cause, lines] of [...byCause].toSorted((a, b) => b[1].length - a[1].length)) {
  process.stdout.write(`${`${cause} (${lines.length})`}\n`)
  for (const line of lines) process.stdout.write(`  ${shorten(line, 200)}\n`)
}
process.stdout.write(`${`${equal} of ${cases.length} equal`}\n`)

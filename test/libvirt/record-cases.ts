/**
 * `npm run record-cases -- [NAME…]`: defines the cases of test/corpus/cases, or only the named ones, in the libvirt of
 * LIBVIRT_ROOTFS and records its answers.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseDocument } from 'yaml'
import { casesFolder, readOwnCases, wholeDomain } from '../corpus/cases.ts'
import { answerOf } from './answer.ts'
import { startOracle } from './oracle.ts'

const named = new Set(process.argv.slice(2))
const oracle = await startOracle()
await writeFile(join(casesFolder, '..', 'capabilities.json'), `${JSON.stringify(oracle.capabilities)}\n`)
for (const one of readOwnCases()) {
  if (named.size > 0 && !named.has(one.name)) continue
  const path = join(casesFolder, `${one.name}.yaml`)
  const document = parseDocument(await readFile(path, 'utf8'))
  const answer = await answerOf(wholeDomain(one), oracle)
  for (const key of ['stored', 'refused'] as const) {
    const value = answer[key]
    if (value === undefined) document.delete(key)
    else document.set(key, value)
  }
  await writeFile(path, document.toString({ lineWidth: 120 }))
}
await oracle.stop()

import { mkdir, rm, writeFile } from 'node:fs/promises'
import { domainReference } from './reference.ts'

/** Generates the reference of the domain. Importing this file has no side effects. */
if (import.meta.main) {
  const folder = new URL('../../docs/reference/domain/', import.meta.url)
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  for (const [name, text] of domainReference()) await writeFile(new URL(name, folder), text)
}

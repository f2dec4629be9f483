import { writeFile } from 'node:fs/promises'
import { rulesReference } from './reference.ts'

/** Writes docs/reference/rules.md anew, and nothing when imported. */
if (import.meta.main) await writeFile(new URL('../../docs/reference/rules.md', import.meta.url), rulesReference())

import { writeFile } from 'node:fs/promises'
import { rulesReference } from './reference.ts'

/** Writes docs/reference/rules.md when run; importing does nothing. */
if (import.meta.main) await writeFile(new URL('../../docs/reference/rules.md', import.meta.url), rulesReference())

/** Writes docs/reference/defaults.md: `node completion/defaults/generate-reference.ts`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { defaultsReference } from './reference.ts'

writeFileSync(join(import.meta.dirname, '../../docs/reference/defaults.md'), defaultsReference())

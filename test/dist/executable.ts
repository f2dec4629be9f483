import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** The executable of `make dist`. */
export const executable = join(root, 'dist/kubectl-vm')

/** Builds it once for all test files of this folder. */
export default function setup(): void {
  const made = spawnSync(process.execPath, [join(root, 'cli/generate-executable.ts')], { encoding: 'utf8' })
  if (made.status !== 0) throw new Error(made.stderr)
}

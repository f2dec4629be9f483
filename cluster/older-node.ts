import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** The oldest Node that runs the package virtset-presets (`engines` in library/generate-package.ts). */
const oldest = 22

/** Finds this Node in the cache, or installs it from npm, and returns its path. */
export async function ensureOlderNode(step: Step, { cache }: Pick<Settings, 'cache'>): Promise<string> {
  const directory = join(cache, `node-${oldest}`)
  const program = join(directory, 'node_modules/node/bin/node')
  if (existsSync(program)) step.show('from the cache')
  else await step.run(['npm', 'install', '--prefix', directory, '--no-audit', '--no-fund', `node@${oldest}`])
  return program
}

import { join, resolve } from 'node:path'

import { createProgress, StepFailed } from '../cluster/progress.ts'
import { readSettings } from '../cluster/settings.ts'
import { terminal } from '../cluster/terminal.ts'
import { release } from './release.ts'
import { parseVersion } from './version.ts'

const { env } = process

async function main(): Promise<void> {
  const version = parseVersion(env['VERSION'])
  const settings = readSettings(resolve(import.meta.dirname, '..'), env)
  const downloads = env['DOWNLOADS'] || `https://github.com/virtset/virtset/releases/download/${version}`
  const progress = createProgress(terminal, join(settings.cache, 'log'))
  console.log(await release(progress, settings, version, downloads))
}

try {
  await main()
} catch (error) {
  // The failure of a step has been shown.
  if (!(error instanceof StepFailed)) console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}

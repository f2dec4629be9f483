import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runChunks } from './chunks.ts'

/**
 * Runs a command line with the chunks of a directory and writes V8's cache of the compiled code beside them, so that
 * the executable does not compile it again:
 *
 *     node cli/generate-code-cache.ts FOLDER complete vm.yaml
 */
const [node = '', script = '', folder = '', ...words] = process.argv
process.argv = [node, script, ...words]

const scripts = runChunks('main.cjs', {
  source: (name) => readFileSync(join(folder, name), 'latin1'),
  cache: () => undefined,
})

process.once('exit', () => {
  for (const [name, compiled] of scripts) writeFileSync(join(folder, `${name}.cache`), compiled.createCachedData())
})

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { flushCompileCache } from 'node:module'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

// Run while an image is made, as the user who will run it: compiles what each process's main.ts imports, and all that
// this imports, into NODE_COMPILE_CACHE. A cold start of these processes costs 290 ms and 89 MB, a warm one 85 ms and
// 52 MB. main.ts itself is left out, since importing it would start the process; importing any other file does nothing.
for (const folder of [...readdirSync('.'), 'handler/network']) {
  const main = resolve(join(folder, 'main.ts'))
  // A browser runs that of the page.
  if (folder === 'ui' || !existsSync(main)) continue
  for (const [, name] of readFileSync(main, 'utf8').matchAll(/^(?:import|\} from).*'([^']+)'$/gm))
    if (name !== undefined && !name.startsWith('node:'))
      await import(name.startsWith('.') ? new URL(name, pathToFileURL(main)).href : name)
}
flushCompileCache()

import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** Imports at run time, without type imports. */
const imported = /^(?:import|export)\s+(?!type\b)(?:[^'";]*?\sfrom\s+)?'([^']+)'|\bimport\('([^']+)'\)/gm

/** The npm packages that programs of the checkout import, directly or through other files, sorted. */
export function packagesOf(checkout: string, mains: readonly string[]): string[] {
  const seen = new Set<string>()
  const packages = new Set<string>()
  const visit = (file: string) => {
    if (seen.has(file)) return
    seen.add(file)
    for (const [, statically, dynamically] of readFileSync(join(checkout, file), 'utf8').matchAll(imported)) {
      const name = statically ?? dynamically ?? ''
      if (name.startsWith('.')) visit(normalize(join(dirname(file), name)))
      else if (!name.startsWith('node:'))
        packages.add(
          name
            .split('/')
            .slice(0, name.startsWith('@') ? 2 : 1)
            .join('/'),
        )
    }
  }
  for (const main of mains) visit(main)
  return [...packages].toSorted()
}

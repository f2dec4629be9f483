import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { rolldown } from 'rolldown'
import { pageLibraries } from './page-libraries.ts'

/**
 * Bundles the page of `kubectl vm ui` with its libraries:
 *
 *     node cli/generate-page.ts FOLDER
 */
const root = join(import.meta.dirname, '..')
const [folder = join(root, 'dist/page')] = process.argv.slice(2)

async function generate(): Promise<void> {
  await mkdir(folder, { recursive: true })
  const built = await rolldown({ input: join(root, 'ui/main.ts'), platform: 'browser', cwd: root })
  // noVNC awaits at the top level, which only modules can.
  const options = { file: join(folder, 'page.js'), format: 'esm', minify: true, codeSplitting: false } as const
  const { output } = await built.write(options)
  await built.close()
  checkLibraries(output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : [])))
  const styles = ['node_modules/@xterm/xterm/css/xterm.css', 'ui/style.css']
  await writeFile(join(folder, 'page.css'), (await Promise.all(styles.map(read))).join('\n'))
  for (const file of ['index.html', 'icon.svg']) await copyFile(join(root, 'ui', file), join(folder, file))
  const texts = await Promise.all(
    Object.entries(pageLibraries).map(
      async ([name, file]) => `${name}\n\n${await read(`node_modules/${name}/${file}`)}`,
    ),
  )
  await writeFile(join(folder, 'licenses.txt'), texts.join(`\n${'='.repeat(80)}\n`))
}

/** A package in the bundle that is not listed would be released without its license. */
function checkLibraries(modules: readonly string[]): void {
  const found = modules.flatMap((id) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? [])
  const unknown = [...new Set(found)].filter((name) => !(name in pageLibraries))
  if (unknown.length > 0) throw new Error(`add ${unknown.join(', ')} to cli/page-libraries.ts`)
}

const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8')

await generate()

import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { rolldown } from 'rolldown'

/**
 * Bundles the page of `kubectl vm ui` with its libraries:
 *
 *     node cli/generate-page.ts FOLDER
 */
const root = join(import.meta.dirname, '..')
const [folder = join(root, 'dist/page')] = process.argv.slice(2)

/** The packages in the bundle, with the files of their licenses. */
const licenses = {
  '@novnc/novnc': 'LICENSE.txt',
  '@xterm/xterm': 'LICENSE',
  '@xterm/addon-fit': 'LICENSE',
  preact: 'LICENSE',
  htm: 'LICENSE',
}

async function generate(): Promise<void> {
  await mkdir(folder, { recursive: true })
  const built = await rolldown({ input: join(root, 'ui/main.ts'), platform: 'browser', cwd: root })
  // noVNC awaits at the top level, which only modules can.
  await built.write({ file: join(folder, 'page.js'), format: 'esm', minify: true, codeSplitting: false })
  await built.close()
  const styles = ['node_modules/@xterm/xterm/css/xterm.css', 'ui/style.css']
  await writeFile(join(folder, 'page.css'), (await Promise.all(styles.map(read))).join('\n'))
  for (const file of ['index.html', 'icon.svg']) await copyFile(join(root, 'ui', file), join(folder, file))
  const texts = await Promise.all(
    Object.entries(licenses).map(async ([name, file]) => `${name}\n\n${await read(`node_modules/${name}/${file}`)}`),
  )
  await writeFile(join(folder, 'licenses.txt'), texts.join(`\n${'='.repeat(80)}\n`))
}

const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8')

await generate()

import { execFile } from 'node:child_process'
import { chmod, copyFile, mkdir, mkdtemp, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { rolldown } from 'rolldown'
import about from '../package.json' with { type: 'json' }
import { assetOf, pageFiles } from './page.ts'

/**
 * Writes an executable that contains Node and the whole command line, and runs without installation
 * (https://nodejs.org/docs/latest-v24.x/api/single-executable-applications.html).
 *
 *     node cli/generate-executable.ts                  # dist/kubectl-vm for this system and processor
 *     node cli/generate-executable.ts FILE NODE 0.2.0  # for the system and processor of that Node, reproducibly, with
 *                                                      # the version that it prints; that Node must have the version
 *                                                      # of the Node that runs this
 */
const root = join(import.meta.dirname, '..')
const run = promisify(execFile)

/** From Node's documentation: marks an executable that has a blob. */
const fuse = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2'

/** The command line that fills V8's code cache; the most common one. */
const sample = [
  'complete',
  join(root, 'manifests/examples/small-with-video.yaml'),
  '--presets',
  join(root, 'manifests/examples'),
]

async function generate(file: string, target: string | undefined, version: string): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'kubectl-vm-'))
  try {
    const chunks = join(work, 'chunks')
    await bundle('cli/main.ts', chunks, version)
    // V8 accepts the cache only from the same Node. It saves 0.15 s of CPU per run, but differs in each build.
    if (target === undefined) await run(process.execPath, [join(root, 'cli/generate-code-cache.ts'), chunks, ...sample])
    await bundle('cli/stand-alone.ts', join(work, 'entry'), version)
    await run(process.execPath, [join(root, 'cli/generate-page.ts'), join(work, 'page')])
    const names = (await readdir(chunks)).toSorted()
    // Relative paths, because the executable contains them and must not depend on the name of a temporary directory.
    const config = {
      main: 'entry/stand-alone.cjs',
      output: 'blob',
      disableExperimentalSEAWarning: true,
      assets: {
        ...Object.fromEntries(names.map((name) => [name, join('chunks', name)])),
        ...Object.fromEntries(pageFiles.map((file) => [assetOf(file), join('page', file)])),
      },
    }
    await writeFile(join(work, 'sea.json'), JSON.stringify(config))
    await run(process.execPath, ['--experimental-sea-config', 'sea.json'], { cwd: work })
    await mkdir(dirname(file), { recursive: true })
    // Replaces the old executable, which may be running.
    const copy = `${file}.tmp`
    await copyFile(target ?? process.execPath, copy)
    await chmod(copy, 0o755)
    const postject = join(root, 'node_modules/postject/dist/cli.js')
    const segment = ['--macho-segment-name', 'NODE_SEA']
    const blob = join(work, 'blob')
    await run(process.execPath, [postject, copy, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', fuse, ...segment])
    await rename(copy, file)
  } finally {
    await rm(work, { recursive: true })
  }
}

/** Bundles as CommonJS, the only format that an executable supports. Each dynamic import becomes a chunk of its own. */
async function bundle(input: string, folder: string, version: string): Promise<void> {
  // The command line reads nothing but its version from package.json.
  const load = (id: string) => (id === join(root, 'package.json') ? JSON.stringify({ version }) : undefined)
  const built = await rolldown({
    input: join(root, input),
    platform: 'node',
    cwd: root,
    plugins: [{ name: 'about', load }],
  })
  await built.write({
    dir: folder,
    format: 'cjs',
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name]-[hash].cjs',
    minify: { compress: true, mangle: false },
  })
  await built.close()
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    await writeFile(path, ascii(await readFile(path, 'utf8')))
  }
}

/** Escapes non-ASCII characters, because V8 uses one-byte strings in place, without a copy. */
const ascii = (code: string): string =>
  code.replaceAll(/[^\0-\x7F]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)

const [file = join(root, 'dist/kubectl-vm'), target, version = about.version] = process.argv.slice(2)
await generate(file, target, version)

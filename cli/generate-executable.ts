import { execFile } from 'node:child_process'
import { chmod, copyFile, mkdir, mkdtemp, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { rolldown } from 'rolldown'

/**
 * Writes `dist/kubectl-vm`: this Node with the whole command line in it, so that a machine needs nothing else
 * (https://nodejs.org/docs/latest-v24.x/api/single-executable-applications.html). For the system and processor that it is made on.
 *
 *     make dist
 */
const root = join(import.meta.dirname, '..')
const run = promisify(execFile)

/** As Node's documentation gives it: the executable looks for it to know that there is something in it. */
const fuse = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2'

/** What is run while V8's caches are made: what most people want, and soon. */
const sample = [
  'complete',
  join(root, 'manifests/examples/small-with-video.yaml'),
  '--presets',
  join(root, 'manifests/examples'),
]

async function generate(file: string): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'kubectl-vm-'))
  try {
    const chunks = join(work, 'chunks')
    await bundle('cli/main.ts', chunks)
    await run(process.execPath, [join(root, 'cli/generate-code-cache.ts'), chunks, ...sample])
    await bundle('cli/stand-alone.ts', join(work, 'entry'))
    const names = await readdir(chunks)
    const blob = join(work, 'blob')
    const config = {
      main: join(work, 'entry/stand-alone.cjs'),
      output: blob,
      disableExperimentalSEAWarning: true,
      assets: Object.fromEntries(names.map((name) => [name, join(chunks, name)])),
    }
    await writeFile(join(work, 'sea.json'), JSON.stringify(config))
    await run(process.execPath, ['--experimental-sea-config', join(work, 'sea.json')])
    await mkdir(dirname(file), { recursive: true })
    // Beside the old one, which somebody may run at this moment.
    const copy = `${file}.tmp`
    await copyFile(process.execPath, copy)
    await chmod(copy, 0o755)
    const postject = join(root, 'node_modules/postject/dist/cli.js')
    await run(process.execPath, [postject, copy, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', fuse])
    await rename(copy, file)
  } finally {
    await rm(work, { recursive: true })
  }
}

/** CommonJS, which is what an executable can hold; what is imported late is a chunk of its own, and loaded late. */
async function bundle(input: string, folder: string): Promise<void> {
  const built = await rolldown({ input: join(root, input), platform: 'node', cwd: root })
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

/** V8 keeps text of one byte a character as it lies in the executable. */
const ascii = (code: string): string =>
  code.replaceAll(/[^\0-\x7F]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)

await generate(join(root, 'dist/kubectl-vm'))

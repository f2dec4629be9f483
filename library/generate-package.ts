import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import about from '../package.json' with { type: 'json' }

/**
 * Writes the npm package of the library, JavaScript with types, because Node does not run TypeScript below
 * `node_modules`. Prints its path:
 *
 *     node library/generate-package.ts [DIRECTORY]    # dist if absent
 */
const root = join(import.meta.dirname, '..')
const run = promisify(execFile)
const entry = 'library/presets'

async function generate(directory: string): Promise<string> {
  const work = await mkdtemp(join(tmpdir(), 'virtset-presets-'))
  try {
    const config = join(work, 'tsconfig.json')
    await writeFile(config, JSON.stringify(compilerConfig(join(work, 'package'))))
    await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', config])
    const folder = join(work, 'package')
    await writeFile(join(folder, 'package.json'), JSON.stringify(await manifest(folder), null, 2))
    await cp(join(root, 'LICENSE'), join(folder, 'LICENSE'))
    await cp(join(root, 'library/README.md'), join(folder, 'README.md'))
    await cp(join(root, 'library/example'), join(folder, 'example'), { recursive: true })
    await mkdir(directory, { recursive: true })
    const { stdout } = await run('npm', ['pack', '--silent', '--pack-destination', directory], { cwd: folder })
    return join(directory, stdout.trim())
  } finally {
    await rm(work, { recursive: true })
  }
}

/** Compiles the modules that the entry reaches, and no others. */
const compilerConfig = (outDir: string) => ({
  extends: join(root, 'tsconfig.json'),
  compilerOptions: {
    noEmit: false,
    declaration: true,
    allowImportingTsExtensions: false,
    rewriteRelativeImportExtensions: true,
    rootDir: root,
    outDir,
    target: 'es2023',
    typeRoots: [join(root, 'node_modules/@types')],
  },
  files: [join(root, `${entry}.ts`)],
})

async function manifest(folder: string) {
  return {
    name: 'virtset-presets',
    version: about.version,
    description: 'Presets for Kubernetes objects of any kind: layers, keyed merge, conflicts, conditions, provenance',
    license: about.license,
    repository: 'github:virtset/virtset',
    type: 'module',
    exports: { '.': { types: `./${entry}.d.ts`, default: `./${entry}.js` } },
    dependencies: await dependenciesOf(folder),
    engines: { node: '>=22' },
  }
}

/** The dependencies of the repository that the compiled modules import. */
async function dependenciesOf(folder: string): Promise<{ readonly [name: string]: string }> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.js'))
  const sources = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))
  const imported = new Set(
    sources.flatMap((text) => [...text.matchAll(/^import .* from '([^']+)'/gm)].map(([, of]) => of)),
  )
  return Object.fromEntries(Object.entries(about.dependencies).filter(([name]) => imported.has(name)))
}

console.log(await generate(join(process.cwd(), process.argv[2] ?? 'dist')))

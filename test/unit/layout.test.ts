import { readdirSync, readFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'

/** Who may import whom, besides itself. `test` and `bench` may import everything and nothing imports them. */
const arrows: { readonly [folder: string]: readonly string[] } = {
  api: [],
  presets: ['api'],
  completion: ['presets', 'api'],
  runtime: ['api'],
  inventory: ['completion', 'presets', 'runtime', 'api'],
  webhooks: ['inventory', 'completion', 'presets', 'runtime', 'api'],
  controller: ['inventory', 'completion', 'presets', 'runtime', 'api'],
  handler: ['runtime', 'api'],
  launcher: ['runtime', 'api'],
  cli: ['inventory', 'completion', 'presets', 'runtime', 'api'],
  cluster: ['api', 'completion', 'presets'],
}

/** `kubectl vm import --from` takes domains of a libvirt daemon; the launcher's client for it knows nothing of the launcher. */
const exceptions: { readonly [folder: string]: string } = { cli: 'launcher/libvirt/' }

/** Folders whose files have no effect but to return a value: nothing of Node that touches the world. */
const pure = ['api', 'presets', 'completion']

/** What a pure folder's file may still import of Node. Scripts that write generated files are named `generate…`. */
const harmless = ['node:crypto', 'node:util', 'node:buffer']

const root = resolve(import.meta.dirname, '../..')

interface Import {
  readonly file: string
  readonly of: string
}

function importsBelow(folder: string): Import[] {
  return readdirSync(resolve(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .flatMap((name) => {
      const file = `${folder}/${name}`
      const source = readFileSync(resolve(root, file), 'utf8')
      return [
        ...source.matchAll(
          /^(?:import|export)\s(?:[\w\s*{},]+\sfrom\s)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm,
        ),
      ].map((found) => ({ file, of: found[1] ?? found[2] ?? '' }))
    })
}

const folders = Object.keys(arrows).filter((folder) => readdirSync(root).includes(folder))
const isScript = ({ file }: Import) => /\/generate[^/]*\.ts$/.test(file)

test.each(folders)('%s imports only what it may', (folder) => {
  const wrong = importsBelow(folder)
    .filter(({ of }) => of.startsWith('.'))
    .map(({ file, of }) => ({ file, target: relative(root, resolve(root, dirname(file), of)) }))
    .filter(({ target }) => !target.startsWith(exceptions[folder] ?? '\0'))
    .filter(({ target }) => ![folder, ...(arrows[folder] ?? [])].includes(target.split('/')[0] ?? ''))
  expect(wrong).toEqual([])
})

test.each(pure.filter((folder) => folders.includes(folder)))('%s touches nothing of the world', (folder) => {
  const wrong = importsBelow(folder).filter(
    (one) => one.of.startsWith('node:') && !harmless.includes(one.of) && !isScript(one),
  )
  expect(wrong).toEqual([])
})

test('only a main.ts or a script reads the environment or ends the process', () => {
  const wrong = folders
    .filter((folder) => folder !== 'cluster' && folder !== 'cli')
    .flatMap((folder) =>
      readdirSync(resolve(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
    )
    .filter((file) => file.endsWith('.ts') && !/(\.test|\/main|\/generate[^/]*)\.ts$/.test(file))
    .filter((file) => /\bprocess\.(env|exit|exitCode)\b/.test(readFileSync(resolve(root, file), 'utf8')))
  expect(wrong).toEqual([])
})

import { readdirSync, readFileSync } from 'node:fs'
import { dirname, matchesGlob, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'

import config from '../../vitest.config.ts'

/** The folders that each folder can import. `test` and `bench` can import everything, and nothing imports them. */
const arrows: { readonly [folder: string]: readonly string[] } = {
  api: [],
  presets: ['api'],
  completion: ['presets', 'api'],
  library: ['presets', 'api'],
  runtime: ['api'],
  inventory: ['completion', 'presets', 'runtime', 'api'],
  webhooks: ['inventory', 'completion', 'presets', 'runtime', 'api'],
  controller: ['inventory', 'completion', 'presets', 'runtime', 'api'],
  handler: ['runtime', 'api'],
  launcher: ['runtime', 'api'],
  cli: ['inventory', 'completion', 'presets', 'runtime', 'api'],
  ui: ['api'],
  cluster: ['api', 'completion', 'presets'],
  release: ['cluster', 'cli'],
}

/**
 * `kubectl vm import --from` reads domains of a libvirt daemon with the launcher's client, which does not depend on the
 * launcher. `kubectl vm --version` prints the version in `package.json`, which the package of the library also has.
 */
const exceptions: { readonly [folder: string]: readonly string[] } = {
  cli: ['launcher/libvirt/', 'package.json'],
  library: ['package.json'],
}

/** Folders without I/O, clock and randomness. */
const pure = ['api', 'presets', 'completion', 'library']

/** The Node modules that files in pure folders can import. Scripts that write generated files are named `generate…`. */
const harmless = ['node:crypto', 'node:util', 'node:buffer']

const root = resolve(import.meta.dirname, '../..')

interface Import {
  readonly file: string
  readonly of: string
}

/** Files with code, without tests. */
function filesBelow(folder: string): string[] {
  return readdirSync(resolve(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => `${folder}/${name}`)
}

function importsBelow(folder: string): Import[] {
  return filesBelow(folder).flatMap((file) => {
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

test.each(folders)('%s imports only allowed folders', (folder) => {
  const wrong = importsBelow(folder)
    .filter(({ of }) => of.startsWith('.'))
    .map(({ file, of }) => ({ file, target: relative(root, resolve(root, dirname(file), of)) }))
    .filter(({ target }) => !(exceptions[folder] ?? []).some((start) => target.startsWith(start)))
    .filter(({ target }) => ![folder, ...(arrows[folder] ?? [])].includes(target.split('/')[0] ?? ''))
  expect(wrong).toEqual([])
})

/** Also of types: a reader should be able to read a file without those that read it. */
test('no file imports itself by way of others', () => {
  const edges = Map.groupBy(
    folders.flatMap(importsBelow).filter(({ of }) => of.startsWith('.')),
    ({ file }) => file,
  )
  const targetsOf = (file: string) =>
    (edges.get(file) ?? []).map(({ of }) => relative(root, resolve(root, dirname(file), of)))
  const done = new Set<string>()
  const cycleFrom = (file: string, path: readonly string[]): readonly string[] => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (done.has(file)) return []
    const found = targetsOf(file)
      .map((target) => cycleFrom(target, [...path, file]))
      .find(({ length }) => length > 0)
    done.add(file)
    return found ?? []
  }
  expect([...edges.keys()].map((file) => cycleFrom(file, [])).filter(({ length }) => length > 0)).toEqual([])
})

test.each(pure.filter((folder) => folders.includes(folder)))('%s is pure', (folder) => {
  const wrong = importsBelow(folder).filter(
    (one) => one.of.startsWith('node:') && !harmless.includes(one.of) && !isScript(one),
  )
  expect(wrong).toEqual([])
})

test('only a main.ts or a script reads the environment or ends the process', () => {
  const wrong = folders
    .filter((folder) => !['cluster', 'cli', 'release'].includes(folder))
    .flatMap(filesBelow)
    .filter((file) => !/(\/main|\/generate[^/]*)\.ts$/.test(file))
    .filter((file) => /\bprocess\.(env|exit|exitCode)\b/.test(readFileSync(resolve(root, file), 'utf8')))
  expect(wrong).toEqual([])
})

/** Does not depend on how many requests tenants send. */
const inBackground = 'webhooks/objects/configuration-controller.ts'

test('admission and subresources use the API server only in lanes, where tenants take turns', () => {
  const wrong = ['webhooks/admission', 'webhooks/objects', 'webhooks/subresources']
    .flatMap(filesBelow)
    .filter((file) => {
      const source = readFileSync(resolve(root, file), 'utf8')
      return (
        /\bkube\.(get|list|listEach|create|update|patch|delete|request)\(/.test(source) &&
        !/\bcreateLanes\(/.test(source)
      )
    })
  expect(wrong).toEqual([inBackground])
})

/** The format of the launcher's reports is checked there. */
const timestampFormat = 'runtime/launcher-api.ts'

test('no decision compares a timestamp of another machine with the own clock', () => {
  const parsing = folders
    .filter((folder) => ['inventory', 'runtime', 'webhooks', 'controller', 'handler', 'launcher'].includes(folder))
    .flatMap(filesBelow)
    .filter((file) =>
      /\bDate\.parse\b|\bnew Date\([^)]*(time|stamp|At)\b/i.test(readFileSync(resolve(root, file), 'utf8')),
    )
  expect(parsing).toEqual([timestampFormat])
})

test('each test file belongs to a project', () => {
  const included = config.test?.projects?.flatMap((project) =>
    typeof project === 'object' && 'test' in project ? (project.test?.include ?? []) : [],
  )
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.test.ts') && !file.includes('node_modules/'),
  )
  expect(files.filter((file) => !included?.some((pattern) => matchesGlob(file, pattern)))).toEqual([])
})

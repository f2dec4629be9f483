import { isUtf8 } from 'node:buffer'
import { readFile, readdir, stat } from 'node:fs/promises'
import { basename, extname, join } from 'node:path'
import { jsonListItems } from '../api/json-list.ts'
import { isRecord, nestingCauses } from '../api/schema.ts'
import { parseManifest } from '../api/yaml.ts'
import type { Manifest } from '../inventory/manifests.ts'
import { Usage, fileFailure } from './failure.ts'

/** An object or document to process. */
export type Input = {
  /** As given; `-` for standard input. */
  readonly file: string
  /**
   * The unique name of its results: the file's name without extension, plus the object's name if a file contains
   * several.
   */
  readonly stem: string
} & (
  | { readonly kind: 'xml'; readonly xml: Buffer }
  | { readonly kind: 'manifest'; readonly object: Manifest }
  /** A sentence that begins with the file's name. */
  | { readonly kind: 'unreadable'; readonly message: string }
)

/**
 * Reads files, the manifests of directories, and standard input for `-`, one after the other, so that memory does not
 * grow with their number. An unreadable file is an input of its own, so that the others are still processed.
 */
export async function* readInputs(paths: readonly string[], stdin: AsyncIterable<unknown>): AsyncGenerator<Input> {
  const stems = new Map<string, number>()
  const unique = (stem: string): string => {
    const before = stems.get(stem) ?? 0
    stems.set(stem, before + 1)
    return before === 0 ? stem : unique(`${stem}-${before + 1}`)
  }
  for (const path of paths) {
    const files = await readable(path, path === '-' ? () => Promise.resolve(['-']) : () => filesOf(path))
    if ('failed' in files) {
      yield files.failed
      continue
    }
    for (const file of files.found) {
      const inputs = await readable(file, async () => inputsOf(file, await bytesOf(file, stdin)))
      for (const input of 'failed' in inputs ? [inputs.failed] : inputs.found) {
        yield { ...input, stem: unique(input.stem) }
      }
    }
  }
}

async function readable<T>(
  file: string,
  read: () => Promise<T>,
): Promise<{ readonly found: T } | { readonly failed: Input }> {
  try {
    return { found: await read() }
  } catch (error) {
    if (!(error instanceof Usage)) throw error
    return { failed: { file, stem: stemOf(file), kind: 'unreadable', message: error.message } }
  }
}

/** Yields the objects of manifests. Throws Usage for Domain XML and unreadable files. */
export async function* eachManifest(paths: readonly string[], stdin: AsyncIterable<unknown>): AsyncGenerator<Manifest> {
  for await (const input of readInputs(paths, stdin)) {
    if (input.kind === 'unreadable') throw new Usage(input.message)
    if (input.kind === 'xml') throw new Usage(`${input.file}: is XML, not a Kubernetes manifest`)
    yield input.object
  }
}

export const readManifests = (paths: readonly string[], stdin: AsyncIterable<unknown>): Promise<Manifest[]> =>
  Array.fromAsync(eachManifest(paths, stdin))

const manifestNames = /\.(ya?ml|json)$/i

export const isManifestName = (name: string): boolean => manifestNames.test(name)

/** The file itself, or the manifests of a directory without its preset tests. */
export async function filesOf(path: string, wanted = manifestNames, unwanted = testNames): Promise<string[]> {
  if (!(await statOf(path)).isDirectory()) return [path]
  const all = await readdir(path, { recursive: true }).catch((error: unknown) => unreadable(path, error))
  const names = all
    .filter((name) => wanted.test(name) && !unwanted.test(name) && !/(^|\/)(node_modules|\.git)\//.test(name))
    .toSorted()
  if (names.length === 0) throw new Usage(`${path}: has no manifest (*.yaml, *.yml, *.json)`)
  return names.map((name) => join(path, name))
}

export const testNames = /\.(?:vm|preset)test\.ya?ml$/i

const statOf = (path: string) => stat(path).catch((error: unknown) => unreadable(path, error))

export async function bytesOf(file: string, stdin: AsyncIterable<unknown>): Promise<Buffer> {
  if (file !== '-') return readFile(file).catch((error: unknown) => unreadable(file, error))
  const chunks: Buffer[] = []
  for await (const chunk of stdin) chunks.push(Buffer.from(chunk instanceof Uint8Array ? chunk : String(chunk)))
  return Buffer.concat(chunks)
}

export async function readText(file: string): Promise<string> {
  return (await bytesOf(file, nothing())).toString('utf8')
}

async function* nothing(): AsyncGenerator<never> {}

const unreadable = (file: string, error: unknown): never => {
  throw fileFailure(file, 'read', error)
}

const stemOf = (file: string): string => (file === '-' ? 'stdin' : basename(file, extname(file)))

function inputsOf(file: string, bytes: Buffer): Iterable<Input> {
  const stem = stemOf(file)
  if (isXml(bytes)) return [{ file, stem, kind: 'xml', xml: bytes }]
  return manifestsOf(file, objectsOf(file, bytes))
}

function* manifestsOf(file: string, objects: Objects): Generator<Input> {
  const stem = stemOf(file)
  for (const object of objects) {
    const [tooDeep] = nestingCauses(object, '')
    if (tooDeep !== undefined) throw new Usage(`${file}: ${tooDeep.message}`)
    yield { file, stem: objects.length === 1 ? stem : `${stem}-${nameOf(object)}`, kind: 'manifest', object }
  }
}

interface Objects extends Iterable<Manifest> {
  readonly length: number
}

/** Recognized by content: no manifest begins with `<`. */
function isXml(bytes: Buffer): boolean {
  const head = bytes
    .subarray(0, 256)
    .toString('utf8')
    .replace(/^\uFEFF/, '')
    .trimStart()
  return head.startsWith('<')
}

/**
 * Parses the items of a JSON List, for example a dump of a cluster, one by one, so that memory does not hold them all.
 */
function objectsOf(file: string, bytes: Buffer): Objects {
  if (!isUtf8(bytes)) throw new Usage(`${file}: is not text in UTF-8`)
  const items = jsonListItems(bytes)
  if (items !== undefined && items.length > 0 && items.every((item) => objectIn(item) !== undefined)) {
    return {
      length: items.length,
      *[Symbol.iterator]() {
        for (const item of items) {
          const object = objectIn(item)
          if (object !== undefined) yield object
        }
      },
    }
  }
  const read = parseManifest(bytes.toString('utf8'))
  if ('problem' in read) throw new Usage(`${file}:${read.problem}`)
  const { values } = read
  const objects = values.map((value, index): Manifest => {
    if (isObject(value)) return value
    throw new Usage(
      `${file}: ${values.length === 1 ? '' : `document ${index + 1} of ${values.length} `}is not a Kubernetes object: it has no \`kind\``,
    )
  })
  if (objects.length === 0) throw new Usage(`${file}: is empty`)
  return objects
}

const isObject = (value: unknown): value is Manifest => isRecord(value) && typeof value['kind'] === 'string'

function objectIn(json: Buffer): Manifest | undefined {
  try {
    const value: unknown = JSON.parse(json.toString('utf8'))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** The message about an unreadable input; rethrows errors that are not user errors. */
export function unreadableText(error: unknown): string {
  if (error instanceof Usage) return error.message
  throw error
}

export function nameOf(object: Manifest): string {
  const metadata = isRecord(object['metadata']) ? object['metadata'] : {}
  const name = metadata['name'] ?? metadata['generateName']
  return typeof name === 'string' ? name : 'unnamed'
}

import { readFile, readdir, stat } from 'node:fs/promises'
import { basename, extname, join } from 'node:path'
import { LineCounter, parseAllDocuments } from 'yaml'
import { isRecord } from '../api/schema.ts'
import { Usage } from './failure.ts'

/** One thing to work on. */
export type Input = {
  /** As the caller named it; `-` for standard input. */
  readonly file: string
  /** What results are called: the file's name without its last extension, and the object's name where a file holds several. */
  readonly stem: string
} & ({ readonly kind: 'xml'; readonly xml: Buffer } | { readonly kind: 'manifest'; readonly object: Manifest })

export interface Manifest {
  readonly [key: string]: unknown
}

/** Reads files, folders (their manifests), and standard input for `-`, one after the other: memory does not grow with their number. */
export async function* readInputs(paths: readonly string[], stdin: AsyncIterable<unknown>): AsyncGenerator<Input> {
  for (const path of paths) {
    for (const file of path === '-' ? ['-'] : await filesOf(path)) yield* inputsOf(file, await bytesOf(file, stdin))
  }
}

/** All objects of manifests; a Domain XML among them is a mistake. */
export async function readManifests(paths: readonly string[], stdin: AsyncIterable<unknown>): Promise<Manifest[]> {
  const objects: Manifest[] = []
  for await (const input of readInputs(paths, stdin)) {
    if (input.kind === 'xml') throw new Usage(`${input.file}: is XML, and Kubernetes manifests are wanted here`)
    objects.push(input.object)
  }
  return objects
}

const manifestNames = /\.(ya?ml|json)$/i

async function filesOf(path: string): Promise<string[]> {
  if (!(await statOf(path)).isDirectory()) return [path]
  const names = (await readdir(path, { recursive: true })).filter((name) => manifestNames.test(name)).toSorted()
  if (names.length === 0) throw new Usage(`${path}: holds no manifest (*.yaml, *.yml, *.json)`)
  return names.map((name) => join(path, name))
}

const statOf = (path: string) => stat(path).catch((error: unknown) => unreadable(path, error))

async function bytesOf(file: string, stdin: AsyncIterable<unknown>): Promise<Buffer> {
  if (file !== '-') return readFile(file).catch((error: unknown) => unreadable(file, error))
  const chunks: Buffer[] = []
  for await (const chunk of stdin) chunks.push(Buffer.from(String(chunk)))
  return Buffer.concat(chunks)
}

function unreadable(file: string, error: unknown): never {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  throw new Usage(`${file}: ${code === 'ENOENT' ? 'no such file' : String(error)}`)
}

function inputsOf(file: string, bytes: Buffer): Input[] {
  const stem = file === '-' ? 'stdin' : basename(file, extname(file))
  if (isXml(bytes)) return [{ file, stem, kind: 'xml', xml: bytes }]
  const objects = objectsOf(file, bytes.toString('utf8'))
  const isOne = objects.length === 1
  return objects.map((object) => ({ file, stem: isOne ? stem : `${stem}-${nameOf(object)}`, kind: 'manifest', object }))
}

/** Told by content: no manifest begins with `<`. */
function isXml(bytes: Buffer): boolean {
  const head = bytes
    .subarray(0, 256)
    .toString('utf8')
    .replace(/^\uFEFF/, '')
    .trimStart()
  return head.startsWith('<')
}

function objectsOf(file: string, text: string): Manifest[] {
  const lines = new LineCounter()
  const documents = parseAllDocuments(text, { lineCounter: lines })
  const objects: Manifest[] = []
  for (const document of documents) {
    const [error] = document.errors
    if (error !== undefined) {
      const { line, col } = lines.linePos(error.pos[0])
      throw new Usage(`${file}:${line}:${col}: ${error.message.split('\n')[0]}`)
    }
    const value: unknown = document.toJS()
    if (value === null || value === undefined) continue
    if (!isRecord(value) || typeof value['kind'] !== 'string') {
      throw new Usage(`${file}: holds something that is no Kubernetes object (it has no \`kind\`)`)
    }
    const { items } = value
    objects.push(...(value['kind'].endsWith('List') && Array.isArray(items) ? items.filter(isRecord) : [value]))
  }
  if (objects.length === 0) throw new Usage(`${file}: is empty`)
  return objects
}

export function nameOf(object: Manifest): string {
  const metadata = isRecord(object['metadata']) ? object['metadata'] : {}
  const name = metadata['name'] ?? metadata['generateName']
  return typeof name === 'string' ? name : 'unnamed'
}

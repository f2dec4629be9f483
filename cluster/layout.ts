import { createHash } from 'node:crypto'
import {
  createReadStream,
  createWriteStream,
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'

/** What the OCI image specification calls a descriptor: something by its digest, `sha256:…`. */
interface Descriptor {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
  readonly annotations?: Readonly<Record<string, string>>
}

interface Manifest {
  readonly config: Descriptor
  readonly layers: readonly Descriptor[]
}

interface Index {
  readonly schemaVersion: number
  readonly manifests: readonly Descriptor[]
}

const nameAnnotation = 'org.opencontainers.image.ref.name'

/** Where a blob is in an OCI layout, and in containerd's store too. */
export function blobPath(directory: string, digest: string): string {
  return join(directory, 'blobs', digest.replace(':', '/'))
}

/** The descriptor of an image's manifest in a layout, by the image's name. */
export function findManifest(layout: string, reference: string): Descriptor | undefined {
  return readIndex(layout).manifests.find((each) => each.annotations?.[nameAnnotation] === reference)
}

/** The names of the images in a layout, the oldest first. */
export function listReferences(layout: string): string[] {
  return readIndex(layout).manifests.flatMap((each) => each.annotations?.[nameAnnotation] ?? [])
}

/** The digests of everything that an image consists of: its manifest, its configuration, its layers. */
export function digestsOf(layout: string, manifest: Descriptor): string[] {
  const { config, layers } = readManifest(layout, manifest)
  return [manifest.digest, config.digest, ...layers.map((layer) => layer.digest)]
}

/**
 * Unpacks an image's compressed layers within the layout. buildah always compresses what it writes to a layout, but takes a layer as
 * written when it finds it there under the digest of its unpacked form: this makes the second push of a large image take no time.
 */
export async function unpackLayers(layout: string, reference: string): Promise<void> {
  const descriptor = findManifest(layout, reference)
  if (descriptor === undefined) throw new Error(`${layout} has no ${reference}`)
  const manifest = readManifest(layout, descriptor)
  const layers: Descriptor[] = []
  for (const layer of manifest.layers)
    layers.push(layer.mediaType.endsWith('+gzip') ? await unpackLayer(layout, layer) : layer)
  const text = JSON.stringify({ ...manifest, layers })
  const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`
  writeFileSync(blobPath(layout, digest), text)
  const index = readIndex(layout)
  const manifests = index.manifests.map((each) =>
    each.digest === descriptor.digest ? { ...each, digest, size: Buffer.byteLength(text) } : each,
  )
  writeIndex(layout, { ...index, manifests })
}

/**
 * Forgets the images that `isWanted` refuses, and removes the blobs that no remaining image needs.
 * Gives back the names of the forgotten.
 */
export function prune(layout: string, isWanted: (reference: string) => boolean): string[] {
  const index = readIndex(layout)
  const nameOf = (each: Descriptor) => each.annotations?.[nameAnnotation] ?? ''
  const kept = index.manifests.filter((each) => isWanted(nameOf(each)))
  writeIndex(layout, { ...index, manifests: kept })
  const needed = new Set(
    kept.flatMap((each) => digestsOf(layout, each)).map((digest) => digest.slice('sha256:'.length)),
  )
  const blobs = join(layout, 'blobs/sha256')
  for (const name of existsSync(blobs) ? readdirSync(blobs) : []) if (!needed.has(name)) rmSync(join(blobs, name))
  return index.manifests.filter((each) => !kept.includes(each)).map(nameOf)
}

async function unpackLayer(layout: string, layer: Descriptor): Promise<Descriptor> {
  const unfinished = join(layout, 'unfinished')
  const hash = createHash('sha256')
  let size = 0
  await pipeline(
    createReadStream(blobPath(layout, layer.digest)),
    createGunzip(),
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        hash.update(chunk)
        size += chunk.length
        yield chunk
      }
    },
    createWriteStream(unfinished),
  )
  const digest = `sha256:${hash.digest('hex')}`
  renameSync(unfinished, blobPath(layout, digest))
  return { ...layer, mediaType: layer.mediaType.replace(/\+gzip$/, ''), digest, size }
}

function readIndex(layout: string): Index {
  const path = join(layout, 'index.json')
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : { schemaVersion: 2, manifests: [] }
}

function writeIndex(layout: string, index: Index): void {
  const path = join(layout, 'index.json')
  writeFileSync(`${path}.unfinished`, JSON.stringify(index))
  renameSync(`${path}.unfinished`, path)
}

function readManifest(layout: string, descriptor: Descriptor): Manifest {
  return JSON.parse(readFileSync(blobPath(layout, descriptor.digest), 'utf8'))
}

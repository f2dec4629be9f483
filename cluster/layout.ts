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

/** A descriptor of the OCI image specification: refers to content by its digest, `sha256:…`. */
export interface Descriptor {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
  readonly annotations?: Readonly<Record<string, string>>
}

export interface Manifest {
  readonly config: Descriptor
  readonly layers: readonly Descriptor[]
}

interface Index {
  readonly schemaVersion: number
  readonly manifests: readonly Descriptor[]
}

export const nameAnnotation = 'org.opencontainers.image.ref.name'

/** The path of a blob in an OCI layout, and in containerd's store. */
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

/** The digests of an image's manifest, configuration and layers. */
export function digestsOf(layout: string, manifest: Descriptor): string[] {
  const { config, layers } = readManifest(layout, manifest)
  return [manifest.digest, config.digest, ...layers.map((layer) => layer.digest)]
}

/**
 * Unpacks an image's compressed layers within the layout. buildah always compresses layers that it writes to a layout,
 * but skips a layer that it finds under the digest of its unpacked form, so pushing a large image again takes no time.
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
 * Removes the images that are not `isWanted`, and the blobs that no remaining image needs.
 * @returns the names of the removed images
 */
export function prune(layout: string, isWanted: (reference: string) => boolean): string[] {
  const index = readIndex(layout)
  const nameOf = (each: Descriptor) => each.annotations?.[nameAnnotation] ?? ''
  const wanted = index.manifests.filter((each) => isWanted(nameOf(each)))
  writeIndex(layout, { ...index, manifests: wanted })
  const needed = new Set(
    wanted.flatMap((each) => digestsOf(layout, each)).map((digest) => digest.slice('sha256:'.length)),
  )
  const blobs = join(layout, 'blobs/sha256')
  for (const name of existsSync(blobs) ? readdirSync(blobs) : []) if (!needed.has(name)) rmSync(join(blobs, name))
  return index.manifests.filter((each) => !wanted.includes(each)).map(nameOf)
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

export function readManifest(layout: string, descriptor: Descriptor): Manifest {
  return JSON.parse(readFileSync(blobPath(layout, descriptor.digest), 'utf8'))
}

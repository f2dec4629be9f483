import { createHash } from 'node:crypto'
import { cpSync, createReadStream, createWriteStream, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'

import { attempt } from '../cluster/command.ts'
import type { Image } from '../cluster/images.ts'
import {
  blobPath,
  findManifest,
  nameAnnotation,
  readManifest,
  type Descriptor,
  type Manifest,
} from '../cluster/layout.ts'

/**
 * Writes an image of the cache, whose layers are not compressed, to an OCI layout of its own with compressed layers, as
 * in registries. The output is reproducible.
 *
 * @param name the name of the image in the layout
 * @returns the digest of its manifest, which is the same in a registry if the layout is copied unchanged
 */
export async function writeArchive(image: Image, layout: string, name: string): Promise<string> {
  const manifest = manifestOf(image)
  rmSync(layout, { recursive: true, force: true })
  mkdirSync(join(layout, 'blobs/sha256'), { recursive: true })
  cpSync(blobPath(image.layout, manifest.config.digest), blobPath(layout, manifest.config.digest))
  const layers: Descriptor[] = []
  for (const layer of manifest.layers) layers.push(await compressed(image.layout, layer, layout))
  const text = JSON.stringify({ ...manifest, layers })
  const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`
  writeFileSync(blobPath(layout, digest), text)
  const mediaType = 'application/vnd.oci.image.manifest.v1+json'
  const descriptor = { mediaType, digest, size: Buffer.byteLength(text), annotations: { [nameAnnotation]: name } }
  writeFileSync(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [descriptor] }))
  writeFileSync(join(layout, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }))
  return digest
}

async function compressed(from: string, layer: Descriptor, to: string): Promise<Descriptor> {
  if (layer.mediaType.endsWith('+gzip')) {
    cpSync(blobPath(from, layer.digest), blobPath(to, layer.digest))
    return layer
  }
  const unfinished = join(to, 'unfinished')
  const hash = createHash('sha256')
  let size = 0
  const measure = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      hash.update(chunk)
      size += chunk.length
      yield chunk
    }
  }
  await pipeline(createReadStream(blobPath(from, layer.digest)), createGzip(), measure, createWriteStream(unfinished))
  const digest = `sha256:${hash.digest('hex')}`
  renameSync(unfinished, blobPath(to, digest))
  return { ...layer, mediaType: `${layer.mediaType}+gzip`, digest, size }
}

/** dpkg's status file, which lists all packages of a Debian-based image, from the uppermost layer that contains it. */
export async function debianStatus(image: Image): Promise<string> {
  for (const { digest } of manifestOf(image).layers.toReversed()) {
    const path = ['--wildcards', '--no-anchored', 'var/lib/dpkg/status']
    const status = await attempt(['tar', '-xOf', blobPath(image.layout, digest), ...path])
    if (status !== undefined && status !== '') return status
  }
  throw new Error(`${image.reference} has no file /var/lib/dpkg/status`)
}

function manifestOf({ layout, reference }: Image): Manifest {
  const descriptor = findManifest(layout, reference)
  if (descriptor === undefined) throw new Error(`${layout} has no ${reference}`)
  return readManifest(layout, descriptor)
}

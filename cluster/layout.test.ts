import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, test } from 'vitest'

import { blobPath, digestsOf, findManifest, prune, unpackLayers } from './layout.ts'

let layout: string
beforeEach(() => {
  layout = mkdtempSync(join(tmpdir(), 'layout-'))
  mkdirSync(join(layout, 'blobs/sha256'), { recursive: true })
})
afterEach(() => rmSync(layout, { recursive: true }))

function put(content: string | Buffer): { digest: string; size: number } {
  const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`
  writeFileSync(blobPath(layout, digest), content)
  return { digest, size: content.length }
}

/** Writes a layout as buildah does. */
function image(...named: [string, string[]][]): void {
  const manifests = named.map(([name, layers]) => ({
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    ...put(
      JSON.stringify({
        config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...put(`config of ${name}`) },
        layers: layers.map((layer) => ({
          mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
          ...put(gzipSync(layer)),
        })),
      }),
    ),
    annotations: { 'org.opencontainers.image.ref.name': name },
  }))
  writeFileSync(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }))
}

const contents = () => readdirSync(join(layout, 'blobs/sha256')).length

test('layers are unpacked under the digest of their unpacked form, which the manifest names', async () => {
  image(['a:1', ['base', 'code']])
  await unpackLayers(layout, 'a:1')
  const [, , ...layers] = digestsOf(layout, findManifest(layout, 'a:1')!)
  expect(layers).toEqual(['base', 'code'].map((text) => put(text).digest))
  expect(layers.map((digest) => readFileSync(blobPath(layout, digest), 'utf8'))).toEqual(['base', 'code'])
})

test('unpacking again changes nothing', async () => {
  image(['a:1', ['base']])
  await unpackLayers(layout, 'a:1')
  const first = findManifest(layout, 'a:1')
  await unpackLayers(layout, 'a:1')
  expect(findManifest(layout, 'a:1')).toEqual(first)
})

test('prune removes an unwanted image with its blobs, but not blobs of other images', async () => {
  image(['a:1', ['base', 'old']], ['a:2', ['base', 'new']])
  await unpackLayers(layout, 'a:1')
  await unpackLayers(layout, 'a:2')
  expect(prune(layout, (reference) => reference === 'a:2')).toEqual(['a:1'])
  expect(findManifest(layout, 'a:1')).toBeUndefined()
  const left = digestsOf(layout, findManifest(layout, 'a:2')!)
  expect(left.every((digest) => existsSync(blobPath(layout, digest)))).toBe(true)
  expect(contents()).toBe(left.length)
})

test('a layout that does not exist has no images', () => {
  expect(findManifest(join(layout, 'no'), 'a:1')).toBeUndefined()
})

import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { run } from '../cluster/command.ts'
import { blobPath, digestsOf, findManifest, nameAnnotation } from '../cluster/layout.ts'
import { debianStatus, writeArchive } from './image-archive.ts'

let folder: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'virtset-archive-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
})

/** An image with these layers, each a tar of files by path. */
async function imageOf(...layers: Readonly<Record<string, string>>[]) {
  const layout = join(folder, 'cache')
  mkdirSync(join(layout, 'blobs/sha256'), { recursive: true })
  const put = (mediaType: string, content: string | Buffer) => {
    const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`
    writeFileSync(blobPath(layout, digest), content)
    return { mediaType, digest, size: content.length }
  }
  const descriptors = []
  for (const [index, files] of layers.entries()) {
    const root = join(folder, `layer-${index}`)
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(root, path, '..'), { recursive: true })
      writeFileSync(join(root, path), text)
    }
    const tar = join(folder, `layer-${index}.tar`)
    await run(['tar', '-cf', tar, '-C', root, ...Object.keys(files)])
    descriptors.push(put('application/vnd.oci.image.layer.v1.tar', readFileSync(tar)))
  }
  const config = put('application/vnd.oci.image.config.v1+json', '{}')
  const manifest = put('application/vnd.oci.image.manifest.v1+json', JSON.stringify({ config, layers: descriptors }))
  const named = { ...manifest, annotations: { [nameAnnotation]: 'an/image:1' } }
  writeFileSync(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [named] }))
  return { name: 'image', reference: 'an/image:1', layout, npmPackages: [] }
}

test('an archive has the image with compressed layers; two runs write the same bytes', async () => {
  const image = await imageOf({ a: 'first' }, { b: 'second' })
  const write = async (name: string) => {
    const layout = join(folder, name)
    const digest = await writeArchive(image, layout, 'r.example/image:v1')
    return { digest, layout, files: readdirSync(layout, { recursive: true, encoding: 'utf8' }).toSorted() }
  }
  const [one, other] = [await write('one'), await write('other')]
  expect(other).toEqual({ ...one, layout: other.layout })
  const manifest = findManifest(one.layout, 'r.example/image:v1')
  if (manifest === undefined) throw new Error('no manifest')
  expect(manifest.digest).toBe(one.digest)
  const [, , ...layers] = digestsOf(one.layout, manifest)
  const { layers: stored } = JSON.parse(readFileSync(blobPath(one.layout, one.digest), 'utf8'))
  expect(stored.map((layer: { mediaType: string }) => layer.mediaType)).toEqual(
    layers.map(() => 'application/vnd.oci.image.layer.v1.tar+gzip'),
  )
  expect(layers.map((digest) => gunzipSync(readFileSync(blobPath(one.layout, digest))))).toEqual(
    [0, 1].map((index) => readFileSync(join(folder, `layer-${index}.tar`))),
  )
})

test('the list of Debian packages is that of the uppermost layer which has one', async () => {
  const path = 'var/lib/dpkg/status'
  expect(await debianStatus(await imageOf({ [path]: 'base' }, { [path]: 'more' }, { b: 'code' }))).toBe('more')
})

test('an image without Debian has no list', async () => {
  await expect(debianStatus(await imageOf({ a: 'b' }))).rejects.toThrow('an/image:1 has no file /var/lib/dpkg/status')
})

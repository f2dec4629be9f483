import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { prepareShared } from './shared-volume.ts'

let files: string
beforeEach(async () => {
  files = await mkdtemp(join(tmpdir(), 'volumes-'))
})
afterEach(() => rm(files, { recursive: true }))

const claim = { name: 'data', persistentVolumeClaim: { claimName: 'c' } }

test.each<[string, () => Promise<unknown>]>([
  ['a block volume is not in the directory', async () => {}],
  ['a file', () => writeFile(join(files, 'data'), '')],
  ['a symbolic link', () => symlink('/etc', join(files, 'data'))],
])('cannot be shared: %s', async (_, make) => {
  await make()
  await expect(prepareShared(claim, { files })).rejects.toThrow(
    'volume "data": a file system of the guest requires a claim with volumeMode Filesystem',
  )
})

test('a volume without a claim cannot be shared', async () => {
  await mkdir(join(files, 'data'))
  await expect(prepareShared({ name: 'data', emptyDisk: { capacity: '1Gi' } }, { files })).rejects.toThrow(
    'requires a claim',
  )
})

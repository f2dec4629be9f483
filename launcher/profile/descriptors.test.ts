import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readDescriptors } from './descriptors.ts'

let root: string

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'descriptors-'))
})

afterEach(() => rm(root, { recursive: true }))

async function place(name: string, put: (path: string) => Promise<void>): Promise<void> {
  const path = join(root, name)
  await mkdir(dirname(path), { recursive: true })
  await put(path)
}

test('an image without firmware has none', async () => {
  expect(await readDescriptors(root)).toEqual(new Map())
})

test('an administrator’s descriptor hides one of its name, by a link to /dev/null too', async () => {
  const system = 'usr/share/qemu/firmware'
  const own = 'etc/qemu/firmware'
  await place(`${system}/40-a.json`, (path) => writeFile(path, 'system'))
  await place(`${system}/50-b.json`, (path) => writeFile(path, 'system'))
  await place(`${system}/60-c.json`, (path) => writeFile(path, 'system'))
  await place(`${own}/50-b.json`, (path) => writeFile(path, 'own'))
  await place(`${own}/60-c.json`, (path) => symlink('/dev/null', path))
  await place(`${own}/70-d.json`, (path) => symlink(`/${system}/40-a.json`, path))
  expect(Object.fromEntries(await readDescriptors(root))).toEqual({
    '40-a.json': 'system',
    '50-b.json': 'own',
    '60-c.json': '',
    '70-d.json': 'system',
  })
})

import { execFile } from 'node:child_process'
import { syncBuiltinESMExports } from 'node:module'
import fs, { appendFile, mkdtemp, open, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { prepareAttachedClaim } from './attached-claim.ts'
import { fillFile, growFile, removeUnfinished, sizeInFileSystem } from './fill-file.ts'

let directory: string
beforeEach(async () => void (directory = await mkdtemp(join(tmpdir(), 'claim-'))))
afterEach(() => rm(directory, { recursive: true }))

const inClaim = (name: string) => join(directory, name)

/** Until the test ends, Node's functions of these names are these. */
function replaceInNode(functions: object): void {
  const before = { ...fs }
  onTestFinished(() => {
    Object.assign(fs, before)
    syncBuiltinESMExports()
  })
  Object.assign(fs, functions)
  syncBuiltinESMExports()
}

const failing = (code: string) => () => Promise.reject(Object.assign(new Error(code), { code }))

describe.each<[string, () => void]>([
  ['has links', () => {}],
  ['has no links, as SMB,', () => replaceInNode({ link: failing('ENOTSUP') })],
])('in a file system that %s', (_, arrange) => {
  const fill = () => fillFile(undefined, { directory, writer: 'vm-1', bytes: 4096n })

  test('a disk gets its name, and nothing else stays', async () => {
    arrange()
    await fill()
    expect([await readdir(directory), (await stat(inClaim('disk.img'))).size]).toEqual([['disk.img'], 4096])
  })

  test('the disk of another VM, which was faster, is not replaced', async () => {
    await writeFile(inClaim('disk.img'), 'in use')
    const { ino } = await stat(inClaim('disk.img'))
    arrange()
    await fill()
    expect((await stat(inClaim('disk.img'))).ino).toBe(ino)
    expect(await readFile(inClaim('disk.img'), 'utf8')).toBe('in use')
    expect(await readdir(directory)).toEqual(['disk.img'])
  })
})

test('a file that can be neither linked nor renamed is an error', async () => {
  const { PATH } = process.env
  onTestFinished(() => void (process.env['PATH'] = PATH))
  replaceInNode({ link: failing('EPERM') })
  process.env['PATH'] = directory
  await expect(fillFile(undefined, { directory, writer: 'vm-1', bytes: 1n })).rejects.toThrow('could not be renamed')
  expect(await readdir(directory)).toEqual([])
})

test('a disk that another VM makes larger after a look at its size keeps what that guest has written', async () => {
  await writeFile(inClaim('disk.img'), 'data')
  const byOther = async () => {
    await truncate(inClaim('disk.img'), 8192)
    await appendFile(inClaim('disk.img'), 'written')
  }
  const openFile = open
  replaceInNode({
    open: async (...args: Parameters<typeof open>) => {
      const file = await openFile(...args)
      const { size } = await file.stat({ bigint: true })
      return Object.assign(file, { stat: () => byOther().then(() => ({ size })) })
    },
  })
  await growFile(directory, 4096n)
  const content = await readFile(inClaim('disk.img'))
  expect([content.length, content.toString().replaceAll('\0', '')]).toEqual([8199, 'datawritten'])
})

test('a disk without room for another block keeps its size', async () => {
  await writeFile(inClaim('disk.img'), 'data')
  // More than any file system allows, as a block that a quota refuses.
  await growFile(directory, (1n << 63n) - 1n)
  expect(await readFile(inClaim('disk.img'), 'utf8')).toBe('data')
})

test('why a disk keeps its size is in the log of the pod', async () => {
  await writeFile(inClaim('disk.img'), 'data')
  // Some versions of fallocate(1) do not tell that posix_fallocate(3) failed.
  await writeFile(inClaim('fallocate'), '#!/bin/sh\necho no room >&2\nexit 1\n', { mode: 0o755 })
  const module = new URL('fill-file.ts', import.meta.url).href
  const program = `const { growFile } = await import('${module}'); await growFile('${directory}', 4096n)`
  const env = { ...process.env, PATH: `${directory}:${process.env['PATH'] ?? ''}` }
  const { stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], { env })
  expect(stderr).toContain('no room')
})

describe('where 10 MiB are free, the disk has', () => {
  const mebibyte = 1024 * 1024

  test.each([
    {
      room: 10,
      and: 'what another VM has not finished may stay',
      name: 'disk.img.vm-2.unfinished',
      isTemporary: false,
    },
    { room: 13, and: 'a download of this VM does not', name: 'disk.img.vm-1-source.unfinished', isTemporary: true },
    { room: 13, and: 'it has 3 MiB itself', name: 'disk.img', isTemporary: false },
  ])('$room MiB: $and', async ({ room, name, isTemporary }) => {
    await writeFile(inClaim(name), Buffer.alloc(3 * mebibyte, 1))
    replaceInNode({ statfs: async () => ({ bavail: 10n, bsize: BigInt(mebibyte) }) })
    await using temporary = await open(inClaim(name))
    const source = { path: inClaim(name), format: 'raw', isDevice: false, bytes: 0n, temporary } as const
    const bytes = await sizeInFileSystem(directory, 1n << 60n, isTemporary ? source : undefined)
    expect(bytes).toBe(BigInt(room * mebibyte))
  })

  test('the size of its source, even without room for that', async () => {
    replaceInNode({ statfs: async () => ({ bavail: 10n, bsize: BigInt(mebibyte) }) })
    const source = { path: '', format: 'raw', isDevice: false, bytes: 1n << 40n } as const
    expect(await sizeInFileSystem(directory, 1n << 60n, source)).toBe(1n << 40n)
  })
})

describe('a claim in which a guest has made many files', () => {
  // What it returns has all names.
  const arrange = () => replaceInNode({ readdir: () => Promise.reject(new Error('out of memory')) })

  test('has its size without them', async () => {
    arrange()
    replaceInNode({ opendir: () => Promise.reject(new Error('too slow')) })
    expect(await sizeInFileSystem(directory, 1024n)).toBe(1024n)
  })

  test('is looked through name by name, if it has no disk', async () => {
    await writeFile(inClaim('disk.img.other.unfinished'), '')
    arrange()
    await expect(prepareAttachedClaim(directory, { isReadOnly: false, capacity: 4096n })).rejects.toThrow('is filling')
    await removeUnfinished(directory)
    await prepareAttachedClaim(directory, { isReadOnly: false, capacity: 4096n })
    expect((await stat(inClaim('disk.img'))).size).toBe(4096)
  })
})

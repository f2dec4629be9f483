import { mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { checkAttachedDevice, claimedCapacity, prepareAttachedClaim } from './attached-claim.ts'
import { whileFilling } from './filling-lock.ts'

let directory: string
beforeEach(async () => void (directory = await mkdtemp(join(tmpdir(), 'claim-'))))
afterEach(() => rm(directory, { recursive: true }))

const prepare = (isReadOnly = false, capacity = '1Mi') =>
  prepareAttachedClaim(directory, { isReadOnly, capacity: claimedCapacity(capacity) })

test('an empty claim gets a disk of its capacity', async () => {
  await mkdir(join(directory, 'lost+found'))
  await writeFile(join(directory, 'disk.img.attached.unfinished'), 'left by an attempt')
  await writeFile(join(directory, 'disk.img.lock'), '')
  await prepare()
  expect([(await readdir(directory)).toSorted(), (await stat(join(directory, 'disk.img'))).size]).toEqual([
    ['disk.img', 'disk.img.lock', 'lost+found'],
    2 ** 20,
  ])
})

test('a claim that a VM is to fill is refused, also while it waits for space and after it has failed', async () => {
  const full = whileFilling(directory, false, async () => {
    await expect(prepare()).rejects.toThrow('a VM is filling the claim, or has not filled it to the end')
    throw new Error('no space')
  })
  await expect(full).rejects.toThrow('no space')
  await expect(prepare()).rejects.toThrow('a VM is filling the claim, or has not filled it to the end')
  await whileFilling(directory, true, () => writeFile(join(directory, 'disk.img'), 'x'))
  await prepare()
  expect((await readdir(directory)).toSorted()).toEqual(['disk.img', 'disk.img.lock'])
})

test.each<[string, boolean, readonly string[]]>([
  ['read-only', true, ['disk.img']],
  ['writable', false, ['disk.img', 'disk.img.lock']],
])('a disk in a %s claim is left as it is', async (_, isReadOnly, files) => {
  await writeFile(join(directory, 'disk.img'), 'x')
  await prepare(isReadOnly)
  expect((await stat(join(directory, 'disk.img'))).size).toBe(1)
  expect((await readdir(directory)).toSorted()).toEqual(files)
})

test.each([true, false])('a claim that is read-only: %s is refused if its lock is a link', async (isReadOnly) => {
  await writeFile(join(directory, 'disk.img'), '')
  await symlink(join(directory, 'elsewhere'), join(directory, 'disk.img.lock'))
  await expect(prepare(isReadOnly)).rejects.toThrow('the claim cannot be locked: disk.img.lock is not a file')
  expect((await readdir(directory)).toSorted()).toEqual(['disk.img', 'disk.img.lock'])
})

test.each<[string, boolean, string, () => Promise<unknown>, string]>([
  ...[false, true].map((isReadOnly): [string, boolean, string, () => Promise<unknown>, string] => [
    `is being filled, read-only: ${isReadOnly},`,
    isReadOnly,
    '1Mi',
    () => writeFile(join(directory, 'disk.img.other-source.unfinished'), ''),
    'a VM is filling the claim, or has not filled it to the end: it has disk.img.other-source.unfinished, and no disk.img yet',
  ]),
  ['is read-only', true, '1Mi', async () => {}, 'the claim has no file disk.img, and is read-only'],
  [
    'has other files',
    false,
    '1Mi',
    () => writeFile(join(directory, 'a'), ''),
    'the claim has no file disk.img, but other files',
  ],
  ['has a directory', false, '1Mi', () => mkdir(join(directory, 'disk.img')), 'what has this name is not a file'],
  [
    'has a link',
    false,
    '1Mi',
    () => symlink('/etc/passwd', join(directory, 'disk.img')),
    'what has this name is not a file',
  ],
  ['has no capacity', false, '0', async () => {}, 'the claim is empty, and its capacity is not known'],
])('a claim that %s is refused', async (_, isReadOnly, capacity, make, message) => {
  await make()
  await expect(prepare(isReadOnly, capacity)).rejects.toThrow(message)
  expect(await readdir(directory)).not.toContain('disk.img.lock')
})

const mark = Buffer.from('virtset: this disk is being filled\n')
test.each<[string, readonly Buffer[], string]>([
  ['new', [Buffer.alloc(8192)], 'accepted'],
  ['marked as unfinished', [mark], 'a VM is filling the claim, or has not filled it to the end'],
  ['marked in its last sector', [Buffer.alloc(3584, 1), mark], 'a VM is filling the claim'],
  ['filled, and its disk contains the mark', [Buffer.alloc(4096, 1), mark], 'accepted'],
])('a block device that is %s', async (_, content, expected) => {
  const device = join(directory, 'device')
  await writeFile(device, Buffer.concat(content))
  const outcome = await checkAttachedDevice(device).then(() => 'accepted', String)
  expect(outcome).toContain(expected)
})

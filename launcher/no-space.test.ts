import { syncBuiltinESMExports } from 'node:module'
import fs, { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { afterEach, describe, expect, test } from 'vitest'
import { createAttemptWithMoreRoom, isFull, writingTo } from './no-space.ts'

const fill = async () => {
  await using full = await open('/dev/full', 'w')
  await full.writeFile('text')
}

const directory = tmpdir()
const petabyte = 2n ** 50n

test.each<[string, { readonly directory?: string; readonly bytes: () => bigint | undefined }, RegExp]>([
  [
    'how much is missing',
    { directory, bytes: () => petabyte },
    /^its file system is full: up to (\d+) bytes are missing \(1125899906842624 are needed, (\d+) are free\)$/,
  ],
  [
    'what is needed, if a quota is less than what is free',
    { directory, bytes: () => 1n },
    /^its file system is full: up to 1 bytes are needed$/,
  ],
  ['what is needed on a device', { bytes: () => 4096n }, /^its file system is full: up to 4096 bytes are needed$/],
  ['no more if the size is not known', { directory, bytes: () => undefined }, /^its file system is full$/],
])('a full file system is reported with %s', async (_, place, message) => {
  const error = await writingTo({ name: 'its file system', ...place }, fill).catch((thrown: unknown) => thrown)
  expect(isFull(error)).toBe(true)
  const words = error instanceof Error ? error.message : ''
  expect(words).toMatch(message)
  const [, missing = petabyte, free = 0] = message.exec(words) ?? []
  expect(BigInt(missing) + BigInt(free)).toBe(petabyte)
  // The innermost place is the one that is full.
  await expect(writingTo({ name: 'another', bytes: () => 1n }, () => Promise.reject(error))).rejects.toBe(error)
})

const edquot = Object.assign(new Error('EDQUOT: disk quota exceeded, write'), { code: 'EDQUOT' })
const failed = (stderr: string) => Object.assign(new Error('Command failed'), { code: 1, stderr })
const named = 'disk: No space left on device'

test.each([
  ['an exhausted quota', edquot, true],
  ['a cause', new Error('cannot be filled', { cause: edquot }), true],
  ['qemu-img, writing', failed('qemu-img: error while writing at byte 0: No space left on device\n'), true],
  ['qemu-img, creating', failed('qemu-img: /a: Could not write qcow2 header: Disk quota exceeded\n'), true],
  ['genisoimage', failed('genisoimage: No space left on device. cannot fwrite 32768*1\n'), true],
  ['a broken device', failed('qemu-img: error while writing at byte 0: Input/output error\n'), false],
  ['a file of that name', failed(`qemu-img: Could not open '${named}': No such file or directory\n`), false],
  ['a command with such a file', Object.assign(new Error(`Command failed: ${named}`), { stderr: 'Killed' }), false],
  ['a message with it', new Error('the image has no "/No space left on device"'), false],
  ['no error', 'No space left on device', false],
])('%s', (_, error, expected) => {
  expect(isFull(error)).toBe(expected)
})

describe('an attempt that had no space', () => {
  const place = { name: 'it', directory, bytes: () => 100n }
  const { statfs } = fs
  afterEach(() => {
    Object.assign(fs, { statfs })
    syncBuiltinESMExports()
  })
  function haveFree(bytes: number, files = 1000): void {
    Object.assign(fs, { statfs: async () => ({ bavail: BigInt(bytes), bsize: 1n, ffree: BigInt(files) }) })
    syncBuiltinESMExports()
  }

  /** Attempts to write 100 bytes where so many are free, and so many files can be created. Returns how many were made. */
  async function attempts(
    free: readonly number[],
    more: { readonly files?: readonly number[]; readonly stored?: bigint; readonly place?: string } = {},
  ): Promise<number> {
    const attempt = createAttemptWithMoreRoom()
    let made = 0
    for (const [index, bytes] of free.entries()) {
      haveFree(bytes, more.files?.[index])
      const write = () => {
        made++
        return writingTo({ ...place, directory: more.place ?? directory, stored: more.stored ?? 0n }, fill)
      }
      await expect(attempt(directory, write)).rejects.toThrow('it is full')
    }
    return made
  }

  const hour = Array.from({ length: 12 }, () => 50)

  test.each<[string, number, () => Promise<number>]>([
    ['is not made again while as much is free', 1, () => attempts([50, 50, 50])],
    ['nor while less is free than that attempt had', 1, () => attempts([50, 40, 49])],
    ['is made again when more is free', 3, () => attempts([50, 51, 51, 52])],
    ['is made again when more files can be created', 2, () => attempts([50, 50], { files: [0, 1] })],
    ['is made again when enough is free, as if there is a quota', 3, () => attempts([100, 100, 100])],
    ['is not when that would be enough without a download', 1, () => attempts([100, 100], { stored: 1n })],
    ['is made again if something else was full', 2, () => attempts([50, 50], { place: '/dev' })],
    ['is made again after twelve delays', 3, () => attempts([...hour, ...hour, 50])],
  ])('%s', async (_, expected, made) => {
    expect(await made()).toBe(expected)
  })

  test('is forgotten once there was space', async () => {
    const attempt = createAttemptWithMoreRoom()
    haveFree(50)
    await expect(attempt(directory, () => writingTo(place, fill))).rejects.toThrow('it is full')
    haveFree(200)
    expect(await attempt(directory, async () => 1)).toBe(1)
    haveFree(40)
    expect(await attempt(directory, async () => 2)).toBe(2)
  })
})

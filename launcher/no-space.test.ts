import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { expect, test } from 'vitest'
import { isFull, writingTo } from './no-space.ts'

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

test.each([
  ['an exhausted quota', Object.assign(new Error('EDQUOT: disk quota exceeded, write'), { code: 'EDQUOT' }), true],
  ['words of qemu-img', new Error('qemu-img: error while writing at byte 0: No space left on device'), true],
  ['a cause', new Error('cannot be filled', { cause: new Error('write: Disk quota exceeded') }), true],
  ['a broken device', new Error('qemu-img: error while writing at byte 0: Input/output error'), false],
  ['no error', 'No space left on device', false],
])('%s', (_, error, expected) => {
  expect(isFull(error)).toBe(expected)
})

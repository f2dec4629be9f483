import { chmodSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, test } from 'vitest'

import { filesBelow, keyOf, keyOfFiles } from './key.ts'

const directory = mkdtempSync(join(tmpdir(), 'key-'))
afterAll(() => rmSync(directory, { recursive: true }))
beforeEach(() => {
  mkdirSync(join(directory, 'a/b'), { recursive: true })
  writeFileSync(join(directory, 'a/one.ts'), 'one')
  writeFileSync(join(directory, 'a/b/two.ts'), 'two')
  writeFileSync(join(directory, 'a/b/two.test.ts'), 'test')
  chmodSync(join(directory, 'a/one.ts'), 0o644)
})
const files = ['a/one.ts', 'a/b/two.ts']

test('files are found below a folder, those that are wanted, in order', () => {
  expect(filesBelow(directory, 'a', (path) => !path.endsWith('.test.ts'))).toEqual(['a/b/two.ts', 'a/one.ts'])
})

test('the order in which files are named does not count, nor their age', () => {
  const before = keyOfFiles(directory, files)
  utimesSync(join(directory, 'a/one.ts'), 1, 1)
  expect(keyOfFiles(directory, files.toReversed())).toBe(before)
})

test.each([
  ['content', () => writeFileSync(join(directory, 'a/one.ts'), 'eins')],
  ['permission to execute', () => chmodSync(join(directory, 'a/one.ts'), 0o755)],
])('another %s is another key', (_, change) => {
  const before = keyOfFiles(directory, files)
  change()
  expect(keyOfFiles(directory, files)).not.toBe(before)
})

test('what moves from one part to the next is another key', () => {
  expect(keyOf('ab', 'c')).not.toBe(keyOf('a', 'bc'))
})

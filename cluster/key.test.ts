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

test('filesBelow returns the wanted files in order', () => {
  expect(filesBelow(directory, 'a', (path) => !path.endsWith('.test.ts'))).toEqual(['a/b/two.ts', 'a/one.ts'])
})

test('the key does not depend on the order or the times of files', () => {
  const before = keyOfFiles(directory, files)
  utimesSync(join(directory, 'a/one.ts'), 1, 1)
  expect(keyOfFiles(directory, files.toReversed())).toBe(before)
})

test.each([
  ['content', () => writeFileSync(join(directory, 'a/one.ts'), 'eins')],
  ['permission to execute', () => chmodSync(join(directory, 'a/one.ts'), 0o755)],
])('another %s changes the key', (_, change) => {
  const before = keyOfFiles(directory, files)
  change()
  expect(keyOfFiles(directory, files)).not.toBe(before)
})

test('moving text from one part to the next changes the key', () => {
  expect(keyOf('ab', 'c')).not.toBe(keyOf('a', 'bc'))
})

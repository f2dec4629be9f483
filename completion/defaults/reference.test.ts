import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { rules } from './defaults.ts'
import { defaultsReference } from './reference.ts'

test('docs/reference/defaults.md matches the rules; otherwise run `npm run reference`', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/reference/defaults.md'), 'utf8')
  expect(page).toBe(defaultsReference())
})

test('every rule has a unique name', () => {
  const names = rules.map(({ name }) => name)
  expect(names).toEqual([...new Set(names)])
})

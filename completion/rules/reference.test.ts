import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { rulesReference } from './reference.ts'

test('docs/reference/rules.md is what the rules make; else: npm run reference', () => {
  expect(readFileSync(new URL('../../docs/reference/rules.md', import.meta.url), 'utf8')).toBe(rulesReference())
})

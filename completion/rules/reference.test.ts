import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { rulesReference } from './reference.ts'

test('docs/reference/rules.md matches the rules; otherwise run `npm run reference`', () => {
  expect(readFileSync(new URL('../../docs/reference/rules.md', import.meta.url), 'utf8')).toBe(rulesReference())
})

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { packagesOf } from './imports.ts'

test('finds packages through other files, each once, but no types, files or Node modules', () => {
  const checkout = mkdtempSync(join(tmpdir(), 'virtset-imports-'))
  onTestFinished(() => rmSync(checkout, { recursive: true }))
  mkdirSync(join(checkout, 'b'))
  const files = {
    'main.ts': `import type { T } from 'types-only'
import 'side-effect'
import { join } from 'node:path'
import {
  one,
  two,
} from './b/b.ts'
const late = () => import('late')`,
    'b/b.ts': `export { x } from '../c.ts'
import y, { type Z } from '@scope/name/part'`,
    'c.ts': `import './b/b.ts'
export * from 'plain/part'`,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(checkout, name), text)
  expect(packagesOf(checkout, ['main.ts'])).toEqual(['@scope/name', 'late', 'plain', 'side-effect'])
})

test('the launcher imports no Kubernetes client, because its pod has no token', () => {
  const packages = packagesOf(resolve(import.meta.dirname, '..'), ['launcher/main.ts', 'launcher/profile/main.ts'])
  expect(packages).toEqual(expect.arrayContaining(['pino', 'saxes']))
  expect(packages).not.toContain('@kubernetes/client-node')
})

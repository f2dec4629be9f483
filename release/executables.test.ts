import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../cluster/command.ts'
import { readSettings } from '../cluster/settings.ts'
import { packExecutable, targets } from './executables.ts'

test.each(targets)('an archive for $os $arch has the license of virtset and that of Node', async (target) => {
  const cache = mkdtempSync(join(tmpdir(), 'virtset-release-'))
  onTestFinished(() => rmSync(cache, { recursive: true }))
  const settings = { ...readSettings(resolve(import.meta.dirname, '..'), {}), cache }
  const node = join(cache, 'node', `${target.node.name}-${target.node.version}`, 'package')
  mkdirSync(node, { recursive: true })
  writeFileSync(join(node, 'LICENSE'), 'the license of Node')
  const executable = join(cache, 'made')
  writeFileSync(executable, 'x')
  const step = { log: '', show() {}, run }

  const file = await packExecutable(step, settings, target, 'v1.2.3', executable, cache)

  expect(file).toBe(`kubectl-vm-v1.2.3-${target.os}-${target.arch}.tar.gz`)
  const list = await run(['tar', '-tzvf', join(cache, file)])
  expect(
    list
      .trim()
      .split('\n')
      .map((line) => [line.slice(0, 10), line.split(' ').at(-1)]),
  ).toEqual([
    ['-rwxr-xr-x', 'kubectl-vm'],
    ['-rw-r--r--', 'LICENSE'],
    ['-rw-r--r--', 'LICENSE.node'],
  ])
  expect(await run(['tar', '-xzOf', join(cache, file), 'LICENSE'])).toContain('Apache License')
  expect(await run(['tar', '-xzOf', join(cache, file), 'LICENSE.node'])).toBe('the license of Node')
})

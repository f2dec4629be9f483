import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '../..')

/** What `make` would run, as one text, and its warnings. */
function dryRun(...targets: string[]): { readonly commands: string; readonly warnings: string } {
  const { stdout, stderr } = spawnSync('make', ['--dry-run', '--no-print-directory', '--directory', root, ...targets], {
    encoding: 'utf8',
  })
  return { commands: stdout, warnings: stderr }
}

test.each(['up', 'down', 'install', 'images', 'binaries', 'rootfs', 'linux-guest', 'upgrade-test', 'test'])(
  'make %s runs the command of the development cluster',
  (target) => {
    const { commands, warnings } = dryRun(target)
    expect(commands.trimEnd().split('\n').at(-1)).toBe(`node_modules/.bin/node cluster/main.ts ${target}`)
    expect(warnings).toBe('')
  },
)

test('each target in the help exists', () => {
  const { commands } = dryRun('help')
  const targets = [...commands.matchAll(/^echo 'make ([\w-]+)/gm)].map((found) => found[1] ?? '')
  expect(targets.length).toBeGreaterThan(10)
  expect(dryRun(...targets).warnings).toBe('')
})

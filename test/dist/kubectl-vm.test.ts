import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runVm } from '../cli/world.ts'
import { executable } from './executable.ts'

const root = join(import.meta.dirname, '../..')
const examples = join(root, 'manifests/examples')
let folder: string
let program: string

/** In a folder without the checkout. */
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'virtset-dist-'))
  program = join(folder, 'kubectl-vm')
  cpSync(executable, program)
})
afterAll(() => {
  if (existsSync(folder)) rmSync(folder, { recursive: true })
})

/** Runs it with an empty environment: no Node, no PATH, no home. */
const run = (...words: string[]) => {
  const { status, stdout, stderr } = spawnSync(program, words, { encoding: 'utf8', env: {}, cwd: folder })
  return { code: status ?? -1, out: stdout, err: stderr }
}

describe('the stand-alone kubectl-vm', () => {
  const offline = ['--presets', examples]

  test.each<[string, readonly string[]]>([
    ['complete', ['complete', join(examples, 'testvm.yaml'), ...offline]],
    ['complete as XML', ['complete', join(examples, 'testvm.yaml'), '-o', 'xml', ...offline]],
    ['a refusal', ['complete', join(examples, 'refused'), ...offline]],
    ['explain', ['explain', join(examples, 'small-with-video.yaml'), ...offline]],
    ['diff', ['diff', join(examples, 'small-with-video.yaml'), ...offline]],
    ['lint', ['lint', examples]],
    ['export', ['export', join(examples, 'testvm.yaml')]],
    ['schema', ['schema', 'VirtualMachinePreset']],
    ['a mistake', ['complte']],
    ['the version', ['--version']],
  ])('%s has the same output as in the checkout', async (_, words) => {
    expect(run(...words)).toEqual(await runVm(words, { columns: 80 }))
  })

  test('is kubectl preset if a link has this name', () => {
    const link = join(folder, 'kubectl-preset')
    symlinkSync('kubectl-vm', link)
    const { stdout } = spawnSync(link, ['--help'], { encoding: 'utf8', env: {} })
    expect(stdout).toMatch(/^Usage: kubectl preset /)
  })

  test('reports that there is no cluster', () => {
    const { code, err } = run('complete', join(examples, 'testvm.yaml'))
    expect(code).toBe(2)
    expect(err).toBe(
      'error: there is no kubeconfig: set KUBECONFIG, or create ~/.kube/config; without a cluster: --presets FILE|DIR or --no-presets\n',
    )
  })
})

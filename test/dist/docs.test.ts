import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { executable } from './executable.ts'

/**
 * Runs the commands and files that the documentation offers for copying, with the executable in the example repository.
 */
const docs = join(import.meta.dirname, '../../docs')
const page = (name: string) => readFileSync(join(docs, name), 'utf8')

let folder: string
let environment: NodeJS.ProcessEnv
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'virtset-docs-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  cpSync(join(docs, 'ci/example'), join(folder, 'repository'), { recursive: true })
  mkdirSync(join(folder, 'bin'))
  symlinkSync(executable, join(folder, 'bin/kubectl-vm'))
  // Replaces kubectl, which only has to find its plugin.
  writeFileSync(join(folder, 'bin/kubectl'), '#!/bin/sh\ncommand=$1; shift; exec kubectl-$command "$@"\n')
  chmodSync(join(folder, 'bin/kubectl'), 0o755)
  environment = { PATH: `${join(folder, 'bin')}:/usr/bin:/bin`, HOME: folder, GITHUB_PATH: join(folder, 'path') }
})

function shell(command: string): { readonly code: number | null; readonly out: string } {
  const { status, stdout, stderr } = spawnSync('/bin/bash', ['--norc', '-ec', command], {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: join(folder, 'repository'),
    env: environment,
    encoding: 'utf8',
  })
  return { code: status, out: `${stdout}${stderr}` }
}

/** The indented blocks of a page, without their indentation. */
const blocks = (text: string): readonly string[] =>
  [...text.matchAll(/(?:^ {4}.*\n|^\n(?= {4}))+/gm)].map(([block]) => block.replaceAll(/^ {4}/gm, '').trim())

const commandsOf = (text: string): readonly string[] =>
  blocks(text)
    .flatMap((block) => block.split('\n'))
    .filter((line) => /^(\$ )?kubectl[ -]vm /.test(line))
    .map((line) => line.replace(/^\$ /, '').replace(/ +#.*$/, ''))

const testing = page('test-your-presets.md')

describe('Test your presets in CI', () => {
  test('shows the test of the example', () => {
    expect(blocks(testing)).toContain(readFileSync(join(docs, 'ci/example/presets/small.vmtest.yaml'), 'utf8').trim())
  })

  test('shows the output of the tests', () => {
    const shown =
      blocks(testing)
        .find((block) => block.startsWith('$ kubectl vm test'))
        ?.split('\n') ?? []
    expect(
      shell(shown[0]?.slice(2) ?? '')
        .out.trimEnd()
        .split('\n'),
    ).toEqual(shown.slice(1))
  })

  test.each(commandsOf(testing).map((command) => [command]))('%s', (command) => {
    const { code, out } = shell(command)
    // Only the last step needs a cluster, and there is none here.
    const isOnline = command.includes(' impact ')
    expect([code, out.includes('there is no kubeconfig')]).toEqual([isOnline ? 2 : 0, isOnline])
  })

  test('the last step, with VMs from files instead of a cluster', () => {
    const { code, out } = shell('kubectl-vm impact --presets presets/ --vms vms/ -o json')
    expect([code, JSON.parse(out).total]).toEqual([1, { vms: 1, different: 1, refused: 0, conflicts: 0, freed: 0 }])
  })
})

interface Workflow {
  readonly jobs: {
    readonly [name: string]: { readonly steps: readonly { readonly name?: string; readonly run?: string }[] }
  }
}

describe('the GitHub workflow', () => {
  const workflow: Workflow = parse(page('ci/github-workflow.yaml'))
  const steps = Object.values(workflow.jobs).flatMap((job) => job.steps.flatMap(({ run }) => run ?? []))
  const runAll = () =>
    steps.map((step) => {
      const { code } = shell(step.replaceAll('${{ vars.KUBECTL_VM_URL }}', `file://${executable}`))
      environment = { ...environment, PATH: `${pathOfWorkflow()}/usr/bin:/bin` }
      return code
    })
  const pathOfWorkflow = () => `${readFileSync(join(folder, 'path'), 'utf8').trim()}:`

  test('downloads the executable and passes', () => {
    expect(runAll()).toEqual(steps.map(() => 0))
  })

  test('fails for an invalid preset and for failing tests', () => {
    const file = join(folder, 'repository/presets/small.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace('vcpu:', 'vcpus:'))
    expect(runAll()).toEqual([0, 1, 1, 0])
  })
})

interface Hook {
  readonly id: string
  readonly entry: string
  readonly files: string
  readonly pass_filenames?: boolean
}

describe('the pre-commit hooks', () => {
  const { repos }: { readonly repos: readonly { readonly hooks: readonly Hook[] }[] } = parse(
    page('ci/pre-commit-config.yaml'),
  )
  const hooks = repos.flatMap((repo) => repo.hooks)
  /** Runs a hook like pre-commit, with the matching files if it accepts files. */
  const run = ({ entry, files, pass_filenames: wantsFiles = true }: Hook) => {
    const names = readdirSync(join(folder, 'repository'), { recursive: true, encoding: 'utf8' })
    const matching = names.filter((name) => new RegExp(files).test(name) && name.endsWith('.yaml'))
    expect(matching).not.toEqual([])
    return shell([entry, ...(wantsFiles ? matching : [])].join(' ')).code
  }

  test.each(hooks.map((hook) => [hook.id, hook] as const))('%s passes', (_, hook) => {
    expect(run(hook)).toBe(0)
  })

  test('fail for a mistake', () => {
    const at = (name: string) => join(folder, 'repository', name)
    const breakIn = (name: string, text: string, by: string) =>
      writeFileSync(at(name), readFileSync(at(name), 'utf8').replace(text, by))
    breakIn('presets/large.yaml', 'cores: 4', 'cores: many')
    breakIn('vms/web.yaml', 'memory:', 'memroy:')
    expect(hooks.map((hook) => [hook.id, run(hook)])).toEqual([
      ['presets-lint', 1],
      ['presets-test', 1],
      ['vms-complete', 1],
    ])
  })
})

test('cli.md shows the output of impact, with the VMs of the example instead of a cluster', () => {
  const [command = '', ...shown] =
    blocks(page('cli.md'))
      .find((block) => block.startsWith('$ kubectl vm impact'))
      ?.split('\n') ?? []
  const { code, out } = shell(`${command.slice(2)} --vms vms`)
  expect([code, out.trimEnd().split('\n')]).toEqual([1, shown])
})

test('the schemas for an editor', () => {
  const command = commandsOf(page('cli.md')).find((one) => one.includes(' schema ')) ?? ''
  expect(shell(`${command} && cat virtset.schema.json`).out).toContain('"$schema"')
})

import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../until.ts'
import { executable } from './executable.ts'

/**
 * Completion by the tab key in real shells in a terminal, with the scripts installed as their first lines describe.
 * `kubectl-vm` in the PATH is the executable for completion, and otherwise prints its arguments.
 */
let folder: string
let environment: NodeJS.ProcessEnv
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'virtset-shells-'))
  const at = (name: string) => join(folder, name)
  for (const name of ['bin', 'home/.config/fish/completions', 'zsh', 'work/presets'])
    mkdirSync(at(name), { recursive: true })
  writeFileSync(at('work/vm.yaml'), '')
  cpSync(executable, at('bin/kubectl-vm.real'))
  writeFileSync(
    at('bin/kubectl-vm'),
    `#!/bin/sh\ncase $1 in __complete) exec kubectl-vm.real "$@";; esac\nprintf 'ran'; printf ' <%s>' "$@"; echo\n`,
  )
  chmodSync(at('bin/kubectl-vm'), 0o755)
  environment = { PATH: `${at('bin')}:/usr/bin:/bin`, HOME: at('home'), TERM: 'dumb', LC_ALL: 'C.UTF-8' }
  const script = (shell: string) => spawnSync(executable, ['completion', shell]).stdout
  writeFileSync(at('bash'), script('bash'))
  writeFileSync(at('zsh/_kubectl-vm'), script('zsh'))
  writeFileSync(at('home/.config/fish/completions/kubectl-vm.fish'), script('fish'))
  writeFileSync(at('home/.bashrc'), `source ${at('bash')}\n`)
  writeFileSync(at('home/.zshrc'), `fpath=(${at('zsh')} $fpath)\nautoload -Uz compinit\ncompinit -u -D\n`)
})
afterAll(() => rmSync(folder, { recursive: true }))

/** Types a line with its tabs, and returns what was run. `script` of util-linux provides the terminal. */
async function typed(shell: string, line: string): Promise<string> {
  const child = spawn('script', ['--quiet', '--return', '--command', shell, '/dev/null'], {
    cwd: join(folder, 'work'),
    env: environment,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let heard = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (heard += text))
  try {
    // A shell that is not reading yet would treat a tab as text.
    child.stdin.write('echo ready; echo\n')
    await until(() => /^ready\r$/m.test(heard), undefined, { deadlineMs: 120_000, describe: () => heard })
    child.stdin.write(`${line}\n`)
    await until(() => /^ran .*\r$/m.test(heard), undefined, { deadlineMs: 120_000, describe: () => heard })
    return /^ran (.*)\r$/m.exec(heard)?.[1] ?? ''
  } finally {
    child.kill('SIGKILL')
  }
}

describe.each(['bash', 'zsh'])('%s completes', (shell) => {
  test.each([
    ['a command', 'kubectl-vm expl\tx', '<explain> <x>'],
    ['a flag', 'kubectl-vm complete --prov\tx', '<complete> <--provenance> <x>'],
    ['the value of a flag', 'kubectl-vm complete -o x\tx', '<complete> <-o> <xml> <x>'],
    ['a value directly after its flag', 'kubectl-vm complete --output=x\tx', '<complete> <--output=xml> <x>'],
    [
      'the one value there is',
      'kubectl-vm complete --strict --output=y\tx',
      '<complete> <--strict> <--output=yaml> <x>',
    ],
    [
      'a file directly after its flag',
      'kubectl-vm complete --output xml --presets=v\tx',
      '<complete> <--output> <xml> <--presets=vm.yaml> <x>',
    ],
    ['a file', 'kubectl-vm complete v\tx', '<complete> <vm.yaml> <x>'],
    ['the folder of a flag', 'kubectl-vm diff x --presets pr\tsmall', '<diff> <x> <--presets> <presets/small>'],
    ['an argument', 'kubectl-vm completion ba\tx', '<completion> <bash> <x>'],
  ])('%s', async (_, line, ran) => {
    expect(await typed(`${shell} -i`, line)).toBe(ran)
  })
})

/** fish can print its completions. */
describe('fish completes', () => {
  test.each([
    ['a command', 'kubectl-vm expl', ['explain']],
    ['a flag', 'kubectl-vm complete --prov', ['--provenance']],
    ['the value of a flag', 'kubectl-vm complete -o ', ['json', 'xml', 'yaml']],
    ['the value of a flag with =', 'kubectl-vm complete --output=x', ['--output=xml']],
    ['a file directly after its flag', 'kubectl-vm complete --presets=v', ['--presets=vm.yaml']],
    ['a file', 'kubectl-vm complete ', ['presets/', 'vm.yaml']],
    ['an argument', 'kubectl-vm completion b', ['bash']],
  ])('%s', (_, line, offered) => {
    const { stdout, stderr } = spawnSync('fish', ['--command', `complete --do-complete '${line}'`], {
      cwd: join(folder, 'work'),
      env: environment,
      encoding: 'utf8',
    })
    expect([
      stderr,
      stdout
        .split('\n')
        .filter((word) => word !== '')
        .toSorted(),
    ]).toEqual(['', offered])
  })
})

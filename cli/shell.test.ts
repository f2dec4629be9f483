import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { shellScript } from './shell.ts'

test('bash does not expand candidates', () => {
  const candidates = ['$(echo run >&2)', '`echo run >&2`', '$HOME', '~', 'a*']
  const script = `
    kubectl-vm() { printf '%s\\n' "\${candidates[@]}"; }
    COMP_WORDS=(kubectl-vm console '') COMP_CWORD=2
    _kubectl_vm
    printf '%s\\n' "\${COMPREPLY[@]}"`
  const given = `candidates=(${candidates.map((one) => `'${one}'`).join(' ')})`
  const { stdout, stderr } = spawnSync('bash', ['--norc'], {
    input: `${shellScript('bash', 'vm')}\n${given}\n${script}\n`,
    encoding: 'utf8',
  })
  expect([stdout, stderr]).toEqual([`${candidates.join('\n')}\n`, ''])
})

import { expect, test } from 'vitest'
import { files, preset, vm } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'
import { errorLine, warningLine } from './error-line.ts'

test('an error and a warning are each one line', () => {
  const forged = 'a\n::error::b\r\nc'
  expect([errorLine(forged), warningLine(forged)]).toEqual([
    'error: a\\n::error::b\\r\\nc\n',
    'Warning: a\\n::error::b\\r\\nc\n',
  ])
})

const forged = 'a\n::error::b'
const other = `{apiVersion: ${JSON.stringify(forged)}, kind: Other, metadata: {name: ${JSON.stringify(forged)}}}`
const misspelled = preset(JSON.stringify(forged), '{selector: {}, domain: {vcpuu: 1}}')
const forAll = preset('all', '{selector: {}, domain: {title: x}}')

test.each<[string, { readonly [name: string]: string }, (at: (name?: string) => string) => readonly string[]]>([
  ['lint of a file', { [`${forged}.yaml`]: forAll }, (at) => ['lint', at()]],
  ['lint of a refused file', { [`${forged}.yaml`]: misspelled }, (at) => ['lint', at()]],
  ['lint of an unreadable file', { [`${forged}.yaml`]: '{' }, (at) => ['lint', at()]],
  [
    'complete with a broken preset',
    { 'p.yaml': misspelled, 'vm.yaml': vm('x') },
    (at) => ['complete', '--presets', at('p.yaml'), at('vm.yaml')],
  ],
  [
    'complete of another kind',
    { 'o.yaml': other, 'p.yaml': forAll },
    (at) => ['complete', '--presets', at('p.yaml'), at('o.yaml')],
  ],
  [
    'diff of another kind',
    { 'o.yaml': other, 'p.yaml': forAll },
    (at) => ['diff', '--presets', at('p.yaml'), at('o.yaml')],
  ],
  [
    'diff of a file',
    { [`${forged}.yaml`]: vm('x'), 'p.yaml': forAll },
    (at) => ['diff', '--presets', at('p.yaml'), at(`${forged}.yaml`)],
  ],
  ['export of another kind', { 'o.yaml': other }, (at) => ['export', at('o.yaml')]],
])('%s prints no line that a manifest or a file name decides', async (_, texts, words) => {
  const { out, err } = await runVm(words(files(texts)))
  expect(`${out}${err}`).toContain('::error::')
  expect(`${out}${err}`).not.toMatch(/^::error::/m)
})

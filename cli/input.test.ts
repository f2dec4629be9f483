import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { files, preset, vm } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'

const small = preset('small', '{selector: {}, domain: {title: x}}')

describe('unreadable and unwritable files', () => {
  test.each<[string, string | Buffer, string]>([
    ['nothing but a comment', '# nothing', 'is empty'],
    ['bytes that are not text', Buffer.from([0xff, 0xfe, 0, 1]), 'is not text in UTF-8'],
    [
      'YAML with a mistake',
      'a:\n  b: [\n',
      ':3:1: Flow sequence in block collection must be sufficiently indented and end with a ]',
    ],
    ['a key twice', 'kind: a\nkind: b\n', ':2:1: key "kind" already set in map'],
    ['an unknown alias', 'kind: a\nb: [*c]\n', ':2:5: Unresolved alias (the anchor must be set before the alias): c'],
    ['text', 'hello', 'is not a Kubernetes object: it has no `kind`'],
    [
      'a list of numbers',
      'kind: List\nitems: [1, 2]\n',
      'document 1 of 2 is not a Kubernetes object: it has no `kind`',
    ],
    [
      'a document without kind after a VM',
      `${vm('a')}---\nb: c\n`,
      'document 2 of 2 is not a Kubernetes object: it has no `kind`',
    ],
    ['an empty list', 'kind: List\nitems: []\n', 'is empty'],
  ])('%s', async (_, content, message) => {
    const at = files({})
    writeFileSync(at('vm.yaml'), content)
    const separator = message.startsWith(':') ? '' : ': '
    expect(await runVm(['complete', at('vm.yaml'), '--no-validate'])).toEqual({
      code: 2,
      out: '',
      err: `error: ${at('vm.yaml')}${separator}${message}\n`,
    })
  })

  test('more levels than any object has', async () => {
    const at = files({ 'vm.json': `{"kind": "VirtualMachine", "spec": ${'['.repeat(20_000)}${']'.repeat(20_000)}}` })
    const { code, err } = await runVm(['complete', at('vm.json'), '--no-validate'])
    expect([code, err]).toEqual([2, `error: ${at('vm.json')}: must not nest deeper than 160 levels\n`])
  })

  test('aliases that would fill the memory', async () => {
    const layers = Array.from(
      { length: 9 },
      (_, index) => `a${index + 1}: &a${index + 1} [${Array(9).fill(`*a${index}`).join(', ')}]`,
    )
    const at = files({ 'vm.yaml': ['kind: x', 'a0: &a0 [x]', ...layers].join('\n') })
    const { code, err } = await runVm(['complete', at('vm.yaml'), '--no-validate'])
    expect([code, err]).toEqual([
      2,
      `error: ${at('vm.yaml')}:3:10: Excessive alias count indicates a resource exhaustion attack\n`,
    ])
  })

  /** As an ordinary user: root is allowed everything. */
  const asUser = async <T>(run: () => Promise<T>): Promise<T> => {
    const before = process.geteuid?.() ?? 0
    if (before === 0) process.seteuid?.(65_534)
    try {
      return await run()
    } finally {
      process.seteuid?.(before)
    }
  }

  const locked = (mode: number) => {
    const at = files({ 'vm.yaml': vm('a'), 'small.yaml': small })
    mkdirSync(at('locked'))
    writeFileSync(at('locked/vm.yaml'), vm('b'))
    chmodSync(at(), 0o755)
    chmodSync(at('locked'), mode)
    onTestFinished(() => chmodSync(at('locked'), 0o700))
    return at
  }

  test.each<[string, number, (at: (name?: string) => string) => string[], string]>([
    ['a directory', 0o000, (at) => ['complete', at('locked')], 'locked: permission denied'],
    ['a file in such a directory', 0o000, (at) => ['complete', at('locked/vm.yaml')], 'vm.yaml: permission denied'],
    [
      'a directory for results',
      0o555,
      (at) => ['complete', at('vm.yaml'), '--out-dir', at('locked')],
      'vm.yaml: permission denied',
    ],
    [
      'a new directory in one',
      0o555,
      (at) => ['complete', at('vm.yaml'), '--out-dir', at('locked/new')],
      'new: permission denied',
    ],
  ])('%s without permission', async (_, mode, words, message) => {
    const at = locked(mode)
    const { code, err } = await asUser(() => runVm([...words(at), '--no-validate']))
    expect([code, err.endsWith(`${message}\n`)]).toEqual([2, true])
  })

  test.each<[string, (at: (name?: string) => string) => string[], string]>([
    [
      'results in place of a file',
      (at) => ['complete', at('vm.yaml'), '--no-validate', '--out-dir', at('vm.yaml')],
      'vm.yaml: is a file, not a directory',
    ],
    [
      'results if no directory can be created',
      (at) => ['complete', at('vm.yaml'), '--no-validate', '--out-dir', '/proc/x/y'],
      '/proc/x/y: its directory does not exist, or accepts no new files',
    ],
    [
      'a report in a missing directory',
      (at) => ['test', at('t.vmtest.yaml'), '--junit', at('none/x')],
      'x: its directory does not exist, or accepts no new files',
    ],
    ['results below a file', (at) => ['schema', '--out-dir', at('vm.yaml/x')], 'x: has a file in place of a directory'],
    [
      'a report below a file',
      (at) => ['test', at('t.vmtest.yaml'), '--junit', at('vm.yaml/x')],
      'x: has a file in place of a directory',
    ],
    [
      'malformed capabilities',
      (at) => ['complete', at('vm.yaml'), '--no-validate', '--capabilities', at('c.json')],
      'c.json: not a profile of capabilities: architecture must be given',
    ],
    [
      'capabilities that are not JSON',
      (at) => ['complete', at('vm.yaml'), '--no-validate', '--capabilities', at('vm.yaml')],
      'is not valid JSON',
    ],
    [
      'nothing but presets to export',
      (at) => ['export', at('small.yaml')],
      'small.yaml: is a preset; export reads VMs',
    ],
    [
      'no VM to compare',
      (at) => ['impact', '--presets', at('small.yaml'), '--vms', at('small.yaml')],
      'small.yaml: no VM found',
    ],
    ['no file to lint', (at) => ['lint', at('nothing')], 'nothing: no such file'],
  ])('%s', async (_, words, message) => {
    const at = files({
      'vm.yaml': vm('a'),
      'small.yaml': small,
      'c.json': '{}',
      't.vmtest.yaml': `vm: vm.yaml\nexpect: {}\n`,
    })
    const { code, err } = await runVm(words(at))
    expect([code, err.startsWith('error: '), err.includes(message)]).toEqual([2, true, true])
  })
})

test('a VM and its preset may be in one file, and XML in a file of any name', async () => {
  const at = files({
    'both.yaml': `${vm('web')}---\n${small}`,
    'dom.conf': '\n <domain type="qemu"><name>d</name><memory>65536</memory><os><type>hvm</type></os></domain>',
  })
  const words = [at('both.yaml'), at('dom.conf'), '--presets', at('both.yaml'), '-o', 'json', '-q']
  const { code, out, err } = await runVm(['complete', ...words])
  expect([code, err, out.match(/"title": "x"/g)?.length]).toEqual([0, '', 2])
})

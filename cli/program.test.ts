import { describe, expect, test } from 'vitest'
import { files, preset, vm } from '../test/cli/files.ts'
import { say } from '../test/cli/world.ts'
import { painter } from './paint.ts'
import { progress } from './output.ts'

describe('the command line', () => {
  test.each([
    [['complet', 'x'], 2, "error: unknown command 'complet'\n(Did you mean complete?)\n"],
    [['complete', 'x', '--preset', 'y'], 2, "error: unknown option '--preset'\n(Did you mean --presets?)\n"],
    [['complete'], 2, "error: missing required argument 'file'\n"],
    [
      ['complete', 'x', '-o', 'text'],
      2,
      "error: option '-o, --output <format>' argument 'text' is invalid. Allowed choices are yaml, json, xml.\n",
    ],
    [
      ['impact', '--presets', 'x', '--limit', 'y'],
      2,
      "error: option '--limit <n>' argument 'y' is invalid. a whole number is wanted.\n",
    ],
    [['import'], 2, 'error: import wants files, or else --from URI or --socket PATH\n'],
  ])('%j is a mistake that it names', async (words, code, err) => {
    const said = await say(words)
    expect([said.code, said.out]).toEqual([code, ''])
    expect(said.err.startsWith(err)).toBe(true)
  })

  test.each(['complete', 'explain', 'diff', 'test', 'impact', 'import', 'export', 'lint', 'schema', 'completion'])(
    '%s --help has an example',
    async (name) => {
      const { code, out } = await say([name, '--help'])
      expect(code).toBe(0)
      expect(out).toContain(`\nExample:\n  kubectl vm ${name}`)
    },
  )
})

describe('what a shell may complete', () => {
  test.each([
    [['comp'], ['complete', 'completion']],
    [
      ['complete', '--name'],
      ['--namespace-labels', '--namespace'],
    ],
    [
      ['complete', '-o', ''],
      ['yaml', 'json', 'xml'],
    ],
    [['complete', 'x', '--output', 'x'], ['xml']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish', 'kubectl'],
    ],
    [['complete', ''], []],
    [['nothing', '--'], []],
  ])('%j', async (words, expected) => {
    const { out } = await say(['__complete', '--', ...words])
    expect(out.split('\n').filter((word) => word !== '')).toEqual(expected)
  })

  test.each(['bash', 'zsh', 'fish', 'kubectl'])('the script for %s asks kubectl-vm', async (shell) => {
    expect((await say(['completion', shell])).out).toContain('kubectl-vm __complete')
  })
})

describe('diff', () => {
  const given = {
    'vm.yaml': vm('web', '', '{size: small}'),
    'p.yaml': preset('small', '{selector: {matchLabels: {size: small}}, domain: {title: hello}}'),
  }

  test('shows what is added, and that there is something', async () => {
    const at = files(given)
    const { code, out } = await say(['diff', at('vm.yaml'), '--presets', at('p.yaml')])
    expect(code).toBe(1)
    expect(out).toContain('\n+    title: hello\n')
    expect(out).not.toContain('completed-by')
    expect(out.split('\n').some((line) => /^-[^-]/.test(line))).toBe(false)
  })

  test('of a completed VM is empty', async () => {
    const at = files(given)
    const { out } = await say(['complete', at('vm.yaml'), '--presets', at('p.yaml')])
    const whole = files({ 'vm.yaml': out })
    expect(await say(['diff', whole('vm.yaml'), '--presets', at('p.yaml')])).toEqual({ code: 0, out: '', err: '' })
  })

  test.each([
    [{}, true, ['--no-color'], false],
    [{}, true, [], true],
    [{ NO_COLOR: '1' }, true, [], false],
    [{ TERM: 'dumb' }, true, [], false],
    [{}, false, [], false],
  ])(
    'is coloured only where people want that: %j, terminal %s, %j',
    async (environment, isOutTerminal, flags, isColored) => {
      const at = files(given)
      const { out } = await say(['diff', at('vm.yaml'), '--presets', at('p.yaml'), ...flags], {
        environment,
        isOutTerminal,
      })
      expect(out.includes('\u001B[32m')).toBe(isColored)
    },
  )
})

test('progress shows after two seconds, on a terminal', () => {
  let time = 0
  const said: string[] = []
  const show = (isTerminal: boolean) => progress({ err: (text) => said.push(text) }, isTerminal, () => time)
  const { step, end } = show(true)
  step('a')
  time = 2000
  step('b')
  time = 2050
  step('c')
  end()
  const silent = show(false)
  time = 9000
  silent.step('d')
  silent.end()
  expect(said).toEqual(['\r\u001B[K2 done, b', '\r\u001B[K'])
})

test('no colour without a terminal', () => {
  expect(painter({ environment: {}, isOutTerminal: false })('red', 'x')).toBe('x')
})

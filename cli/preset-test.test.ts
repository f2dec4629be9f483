import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { files, preset, vm } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'
import { gadgetCrd } from '../test/presets/objects.ts'

const small = preset('small', '{selector: {matchLabels: {size: small}}, strength: Enforce, domain: {vcpu: {value: 2}}}')

const given = { 'small.yaml': small, 'web.yaml': vm('web', '', '{size: small}') }
const testOf = (expected: string, more = ''): string => `name: a test
presets: small.yaml
vm: web.yaml
${more}expect: ${expected}
`

describe('a test of presets', () => {
  test.each([
    ['a part of the VM', '{completed: {spec: {domain: {vcpu: {value: 2}}}}}'],
    ['the presets', '{presets: [default/small]}'],
    ['no warning', '{warnings: []}'],
    ['all together', '{completed: {metadata: {name: web}}, warnings: [], presets: [default/small]}'],
  ])('passes where %s came out', async (_, expected) => {
    const at = files({ ...given, 'a.vmtest.yaml': testOf(expected) })
    expect(await runVm(['test', at()])).toEqual({
      code: 0,
      out: `ok    ${at('a.vmtest.yaml')}: a test\n1 passed, 0 failed\n`,
      err: '',
    })
  })

  test.each([
    ['another value', '{completed: {spec: {domain: {vcpu: {value: 3}}}}}', 'spec.domain.vcpu.value: expected 3, got 2'],
    ['something absent', '{completed: {spec: {domain: {title: x}}}}', 'spec.domain.title: expected "x", got nothing'],
    ['other presets', '{presets: []}', 'unexpected preset: default/small'],
    ['a warning', '{warnings: [changed]}', 'no such warning: changed'],
    ['causes', '{causes: [{field: spec.x}]}', 'no such cause: {"field":"spec.x"}'],
  ])('fails where %s was expected', async (_, expected, line) => {
    const at = files({ ...given, 'a.vmtest.yaml': testOf(expected) })
    expect(await runVm(['test', at()])).toEqual({
      code: 1,
      out: `FAIL  ${at('a.vmtest.yaml')}: a test\n        ${line}\n0 passed, 1 failed\n`,
      err: '',
    })
  })

  test('fails with a hint if no preset was applied', async () => {
    const expected = '{completed: {spec: {domain: {vcpu: {value: 2}}}}}'
    const at = files({ ...given, 'a.vmtest.yaml': testOf(expected), 'web.yaml': vm('web') })
    expect((await runVm(['test', at()])).out).toContain(
      '\n        no preset was applied: compare its namespace and labels with those of the test\n',
    )
  })

  const refused = `presets: [${'{apiVersion: virtset.io/v1alpha1, kind: VirtualMachinePreset, metadata: {name: b}, spec: {selector: {}, domain: {vcpu: {value: 1}}}}'}, ${'{apiVersion: virtset.io/v1alpha1, kind: VirtualMachinePreset, metadata: {name: c}, spec: {selector: {}, domain: {vcpu: {value: 2}}}}'}]
vm: web.yaml
namespace: {name: team, labels: {a: b}}
expect:
  causes:
  - field: spec.domain.vcpu.value
    rule: preset-conflict
`

  test('a refusal is expected by its causes', async () => {
    const at = files({
      ...given,
      'a.vmtest.yaml': refused,
      'b.vmtest.yaml': testOf('{completed: {}}').replace('small.yaml', 'bad.yaml'),
      'bad.yaml': `${small}---\n${preset('other', '{selector: {}, strength: Enforce, domain: {vcpu: {value: 1}}}')}`,
    })
    const { code, out } = await runVm(['test', at()])
    expect([code, out.split('\n')[0]]).toEqual([1, `ok    ${at('a.vmtest.yaml')}: web`])
    expect(out).toMatch(/FAIL .*b\.vmtest\.yaml: a test\n {8}refused: spec\.domain\.vcpu\.value: Invalid value/)
  })

  test('--update writes the actual results and leaves the rest unchanged', async () => {
    const text = `# why\n${testOf('\n  # what\n  completed:\n    spec:\n      domain:\n        vcpu:\n          value: 3\n  presets: []')}`
    const at = files({ ...given, 'a.vmtest.yaml': text })
    expect((await runVm(['test', at(), '--update'])).code).toBe(0)
    expect(readFileSync(at('a.vmtest.yaml'), 'utf8')).toBe(
      text
        .replace('value: 3', 'value: 2')
        .replace('presets: []', 'presets:\n    - default/small')
        .replace('expect: \n', 'expect:\n'),
    )
    expect((await runVm(['test', at()])).out).toContain('1 passed, 0 failed')
  })

  test('--junit writes a report', async () => {
    const at = files({ ...given, 'a.vmtest.yaml': testOf('{completed: {spec: {domain: {title: <&">}}}}') })
    await runVm(['test', at(), '--junit', at('report.xml')])
    const report = readFileSync(at('report.xml'), 'utf8')
    expect(report).toContain('<testsuites tests="1" failures="1"')
    expect(report).toContain('message="spec.domain.title: expected &quot;&lt;&amp;\\&quot;&gt;&quot;, got nothing"')
  })

  test.each([
    ['no test', {}, /has no test \(\*\.vmtest\.yaml, \*\.presettest\.yaml\)/],
    ['an unknown key', { 'a.vmtest.yaml': 'presetz: []' }, /unknown key `presetz`; must be one of name, presets/],
    ['no VM', { 'a.vmtest.yaml': 'presets: []\nexpect: {}' }, /`vm` must be an object/],
    ['no expectation', { 'a.vmtest.yaml': 'presets: []\nvm: web.yaml' }, /`expect` is missing/],
    ['a missing file', { 'a.vmtest.yaml': 'vm: nowhere.yaml\nexpect: {}' }, /nowhere\.yaml: no such file/],
  ])('with %s it is an error', async (_, texts, message) => {
    const at = files({ ...given, ...texts })
    const { code, err } = await runVm(['test', at()])
    expect(code).toBe(2)
    expect(err).toMatch(message)
  })
})

describe('a test of presets for another kind', () => {
  const presetFor = (name: string, size: number) =>
    preset(
      name,
      `{target: {apiVersion: example.com/v1, kind: Gadget}, selector: {}, strength: Enforce, object: {spec: {size: ${size}}}}`,
      'ObjectPreset',
    )
  const objects = {
    'crd.json': JSON.stringify(gadgetCrd),
    'a.yaml': presetFor('a', 2),
    'broken.yaml': presetFor('b', 200),
    'g.yaml': 'apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\nspec: {size: 1}\n',
  }
  const gadgetTest = (schema: string, expected: string) =>
    `presets: [a.yaml, broken.yaml]\nobject: g.yaml\n${schema}expect: ${expected}\n`
  const expected =
    '{completed: {spec: {size: 2}}, presets: [team/a], warnings: [\'"team/b" is broken and not\', left out, was 1]}'

  test.each([
    ['that names the schema', 'schema: crd.json\nnamespace: team\n', []],
    ['with the schema of the command line', 'namespace: team\n', ['--schema', 'crd.json']],
  ])('%s', async (_, more, flags) => {
    const at = files({ ...objects, 'a.presettest.yaml': gadgetTest(more, expected) })
    const words = flags.map((word) => (word.startsWith('-') ? word : at(word)))
    expect(await runVm(['test', at(), ...words])).toEqual({
      code: 0,
      out: `ok    ${at('a.presettest.yaml')}: g\n1 passed, 0 failed\n`,
      err: '',
    })
  })

  test('fails where the object differs, and --update corrects it', async () => {
    const at = files({
      ...objects,
      'a.presettest.yaml': gadgetTest('schema: [crd.json]\n', '{completed: {spec: {size: 3}}}'),
    })
    expect((await runVm(['test', at()])).out).toContain('spec.size: expected 3, got 2')
    await runVm(['test', at(), '--update'])
    expect(await runVm(['test', at()])).toMatchObject({ code: 0 })
  })

  test('requires a schema or a cluster', async () => {
    const at = files({ ...objects, 'a.presettest.yaml': gadgetTest('', '{}') })
    expect(await runVm(['test', at()])).toEqual({
      code: 2,
      out: '',
      err: 'error: Gadget of example.com/v1 needs the schema of its kind: no cluster; without a cluster: --schema FILE|DIR\n',
    })
  })
})

import { expect, test } from 'vitest'
import { files, preset } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'

const one = preset('one', '{selector: {matchLabels: {size: small}}, domain: {vcpu: {value: 1}}}')

test.each<[string, { readonly [name: string]: string }, number, readonly RegExp[]]>([
  [
    'a field that there is not',
    { 'a.yaml': preset('bad', '{selector: {}, domain: {vcpuu: 1}}') },
    1,
    [/The VirtualMachinePreset "bad" is invalid: spec.domain.vcpuu: .*; did you mean "vcpu"\?/],
  ],
  [
    'a preset for all',
    { 'a.yaml': preset('all', '{selector: {}, domain: {title: x}}') },
    3,
    [/Warning: .*a\.yaml: preset "all": spec.selector: \{\} selects every VM/],
  ],
  [
    'two that could disagree',
    { 'a.yaml': one, 'b.yaml': preset('two', '{selector: {matchLabels: {tier: a}}, domain: {vcpu: {value: 2}}}') },
    3,
    [
      /b\.yaml: preset "default\/two" disagrees with preset "default\/one" on spec.domain.vcpu.value, e.g. on a VM with labels \{.*size=small/,
    ],
  ],
  ['one twice', { 'a.yaml': one, 'b.yaml': one }, 3, [/preset "default\/one" is also in .*a\.yaml: only one/]],
  [
    'a grant',
    {
      'a.yaml': preset(
        'grant',
        '{selector: {matchLabels: {a: b}}, domain: {devices: {emulator: /bin/qemu}}}',
        'ClusterVirtualMachinePreset',
      ),
    },
    3,
    [/requires the verb "grant-host"/],
  ],
  ['no preset', { 'a.yaml': 'kind: Pod' }, 2, [/no preset found/]],
])('lint of %s', async (_, texts, code, messages) => {
  const at = files(texts)
  const result = await runVm(['lint', at(), '--strict'])
  expect(result.code).toBe(code)
  for (const message of messages) expect(result.err).toMatch(message)
})

const forAll = preset('all', '{selector: {}, domain: {title: x}}')

test.each([
  ['counts the checked presets', one, ['--strict']],
  ['prints no warnings with -q', forAll, ['-q']],
])('lint %s', async (_, text, flags) => {
  expect(await runVm(['lint', files({ 'a.yaml': text })(), ...flags])).toEqual({
    code: 0,
    out: '1 preset checked\n',
    err: '',
  })
})

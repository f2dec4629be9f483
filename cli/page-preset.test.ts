import { expect, test } from 'vitest'
import { checkPresetText } from './page-preset.ts'

const preset = (spec: string, kind = 'VirtualMachinePreset') => `apiVersion: virtset.io/v1alpha1
kind: ${kind}
metadata: {name: small}
spec:
  selector: {matchLabels: {a: b}}
  domain: ${spec}
`

test('a text that is accepted has its object, in the namespace of the context', () => {
  expect(checkPresetText(preset('{vcpu: {value: 1}}'), 'team')).toEqual({
    problems: [],
    object: {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachinePreset',
      metadata: { name: 'small', namespace: 'team' },
      spec: { selector: { matchLabels: { a: 'b' } }, domain: { vcpu: { value: 1 } } },
    },
  })
})

test.each([
  [
    'every cause has its line',
    preset('{vcpu: {value: x}, titel: a}'),
    ['6 error spec.domain.vcpu.value', '6 error spec.domain.titel'],
  ],
  ['a syntax error', 'kind: {', ['1 error ']],
  ['another kind', 'kind: VirtualMachine', ['1 error kind']],
  [
    'a warning about fields that reach the host',
    preset('{devices: {emulator: /usr/bin/qemu}}', 'ClusterVirtualMachinePreset'),
    ['1 warning '],
  ],
])('%s', (_, text, expected) => {
  const { problems } = checkPresetText(text, 'team')
  expect(problems.map(({ line, severity, field }) => `${line} ${severity} ${field}`).toSorted()).toEqual(
    expected.toSorted(),
  )
})

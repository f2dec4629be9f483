import { expect, test } from 'vitest'
import { inventoryOf, presetsOf } from '../inventory/manifests.ts'
import { completeText } from './page-vm.ts'
import { offline } from './scope.ts'

const titled = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachinePreset',
  metadata: { name: 'titled', namespace: 'team' },
  spec: { selector: { matchLabels: { app: 'web' } }, domain: { title: 'a web server' } },
}

const settings = {
  allowHostReach: false,
  skipRules: false,
  namespace: 'team',
  scopes: offline(inventoryOf(presetsOf([titled], 'team'), {})),
}

const domain =
  '{type: qemu, memory: {value: 64, unit: MiB}, os: {type: {os: hvm}}, devices: {interfaces: [{type: user}]}}'
const vm = (spec: string) => `apiVersion: virtset.io/v1alpha1
kind: VirtualMachine
metadata: {name: web, labels: {app: web}}
spec:
  domain: ${spec}
`
const config = `apiVersion: virtset.io/v1alpha1
kind: VirtualMachineConfig
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      domain: ${domain}
`

test.each([
  ['a VM', vm(domain)],
  ['a config', config],
])('%s is completed, in the namespace of the context', async (_, text) => {
  const { problems, object, explanation, presets } = await completeText(text, settings)
  expect(problems).toEqual([])
  expect(object?.['metadata']).toMatchObject({ name: 'web', namespace: 'team' })
  expect(presets).toMatchObject([{ preset: 'team/titled', outcome: 'applied' }])
  const fields = new Map(explanation?.fields.map((field) => [field.path, field]))
  expect(fields.get('spec.domain.title')).toMatchObject({ value: 'a web server', preset: 'team/titled' })
  expect(fields.get('spec.domain.memory.value')).toMatchObject({ value: 64, user: true })
  expect(fields.get('spec.domain.vcpu.value')).toMatchObject({ value: 1, default: expect.any(String) })
})

test('the same text has the same addresses each time', async () => {
  const [first, second] = await Promise.all([completeText(vm(domain), settings), completeText(vm(domain), settings)])
  expect(first.explanation).toEqual(second.explanation)
})

test.each([
  [
    'a VM with several causes',
    vm(domain.replace('{type: qemu,', '{type: qemu, titel: a, vcpu: {value: x},')),
    ['5 spec.domain.titel', '5 spec.domain.vcpu.value'],
  ],
  ['a cause in a template', config.replace('type: qemu', 'type: x'), ['8 spec.template.spec.domain.type']],
  ['a syntax error', 'kind: {', ['1 ']],
  ['a preset', JSON.stringify(titled), ['1 kind']],
  ['a similar kind', 'kind: VirtualMachin', ['1 kind']],
  ['another version', vm(domain).replace('v1alpha1', 'v2'), ['1 kind']],
])('%s is refused', async (_, text, expected) => {
  const { problems, object, explanation } = await completeText(text, settings)
  expect(problems.map(({ line, field }) => `${line} ${field}`).toSorted()).toEqual(expected)
  expect([object, explanation]).toEqual([undefined, undefined])
})

test('a refused VM has its presets', async () => {
  const { presets } = await completeText(vm(domain.replace('64', '0')), settings)
  expect(presets).toMatchObject([{ preset: 'team/titled', outcome: 'applied' }])
})

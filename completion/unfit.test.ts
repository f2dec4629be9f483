import { expect, test } from 'vitest'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { nodeProfile, olderCapabilities } from '../test/node-profile.ts'
import { bundledCapabilities } from './capabilities.ts'
import { nodeCapabilities } from './nodes.ts'
import { unfitNodes } from './unfit.ts'

const old = olderCapabilities('10.0')
const spec = (machine: string, more: Partial<VirtualMachineSpec> = {}): VirtualMachineSpec => ({
  domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm', machine } } },
  ...more,
})
const two = [nodeProfile('new', bundledCapabilities), nodeProfile('old', old)]
const three = [...two, nodeProfile('newer', bundledCapabilities)]

const withFeatures = (...cpuFeatures: string[]) => ({
  ...bundledCapabilities,
  accelerators: { kvm: { cpuModels: [], cpuFeatures } },
})
const cpus = [nodeProfile('amd', withFeatures('svm')), nodeProfile('intel', withFeatures('vmx'))]
const kvm = (feature: { name: string; policy?: 'forbid' }): VirtualMachineSpec => ({
  domain: { ...spec('pc-q35-9.2').domain, type: 'kvm', cpu: { mode: 'host-model', features: [feature] } },
})

test.each<[string, Parameters<typeof nodeCapabilities>[0], VirtualMachineSpec, string[]]>([
  ['none if no node has published capabilities', [], spec('pc-q35-10.0'), []],
  ['none if all can run it', two, spec('pc-q35-9.2'), []],
  ['a node without the machine type', two, spec('pc-q35-10.0'), ['old']],
  ['none if no node can run it', [nodeProfile('old', old)], spec('pc-q35-10.0'), []],
  ['an outlier, regardless of what the VM needs', three, spec('pc-q35-9.2'), ['old']],
  ['not a node whose labels show that it does not have the CPU', cpus, kvm({ name: 'svm' }), []],
  ['a node whose CPU has what the VM forbids', cpus, kvm({ name: 'svm', policy: 'forbid' }), ['amd']],
  [
    'the nodes for which a large VM is not checked',
    [...two, nodeProfile('newest', { ...bundledCapabilities, version: '11.0.0' }), nodeProfile('other', { ...old })],
    { ...spec('pc-q35-10.0'), tolerations: Array.from({ length: 33_000 }, () => ({ key: 'a', operator: 'Exists' })) },
    ['newest', 'old', 'other'],
  ],
  [
    'not an outlier that the VM selects',
    three,
    spec('pc-q35-9.2', { nodeSelector: { 'kubernetes.io/hostname': 'old' } }),
    [],
  ],
])('unfit: %s', (_, profiles, given, nodes) => {
  expect(unfitNodes(given, nodeCapabilities(profiles))).toEqual(nodes)
})

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

test.each<[string, Parameters<typeof nodeCapabilities>[0], VirtualMachineSpec, string[]]>([
  ['where no node has said anything, none', [], spec('pc-q35-10.0'), []],
  ['where all can run it, none', two, spec('pc-q35-9.2'), []],
  ['a node without the machine type', two, spec('pc-q35-10.0'), ['old']],
  ['where none can run it, none', [nodeProfile('old', old)], spec('pc-q35-10.0'), []],
  ['an outlier, whatever the VM needs', three, spec('pc-q35-9.2'), ['old']],
  [
    'an outlier that the VM selects is none',
    three,
    spec('pc-q35-9.2', { nodeSelector: { 'kubernetes.io/hostname': 'old' } }),
    [],
  ],
])('unfit: %s', (_, profiles, given, nodes) => {
  expect(unfitNodes(given, nodeCapabilities(profiles))).toEqual(nodes)
})

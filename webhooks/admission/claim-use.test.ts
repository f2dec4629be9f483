import { expect, test } from 'vitest'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { claimKey, claimUses, claimWarnings, type ClaimUse } from './claim-use.ts'

type Disk = NonNullable<NonNullable<VirtualMachineSpec['domain']['devices']>['disks']>[number]

const specWith = (disk: Disk = {}, readOnly?: boolean): VirtualMachineSpec => ({
  domain: {
    type: 'qemu',
    devices: { disks: [{ type: 'volume', source: { volume: 'data' }, target: { dev: 'vda' }, ...disk }] },
  },
  volumes: [
    { name: 'data', persistentVolumeClaim: { claimName: 'c', ...(readOnly === undefined ? {} : { readOnly }) } },
    { name: 'scratch', emptyDisk: { capacity: '1Gi' } },
    { name: 'unused', persistentVolumeClaim: { claimName: 'unused' } },
  ],
})

const exclusive = specWith()
const shared = specWith({ shareable: {} })
const reader = specWith({ readonly: {} })
const state: VirtualMachineSpec = { domain: {}, volumes: exclusive.volumes ?? [], deviceStateVolume: 'data' }

test.each<[string, VirtualMachineSpec, boolean, boolean]>([
  ['a disk', exclusive, true, false],
  ['a shareable disk', shared, true, true],
  ['a read-only disk', reader, false, false],
  ['a CD', specWith({ device: 'cdrom' }), false, false],
  ['a read-only claim', specWith({}, true), false, false],
])('%s uses its claim', (_, spec, isWriter, isShared) => {
  expect(claimUses(spec)).toEqual([{ claim: 'c', isWriter, isShared }])
})

test.each([false, true])('an attached volume that is read-only: %s uses its claim alone', (readOnly) => {
  const attachedVolumes = [{ name: 'a', persistentVolumeClaim: { claimName: 'c', readOnly } }]
  expect(claimUses({ domain: {}, attachedVolumes })).toEqual([{ claim: 'c', isWriter: !readOnly, isShared: false }])
})

/** An index with one VM. */
function userOf(name: string, spec: VirtualMachineSpec) {
  const keys = claimUses(spec).map((use) => claimKey('', use))
  return (use: ClaimUse) => (keys.includes(claimKey('', use)) ? name : undefined)
}

const warned = [
  'the VM "other" uses the claim "c" too: the VM that starts second fails, unless each disk of the two has shareable: {} or only reads, or one is an attached volume and the other has shareable: {}; a block volume is locked only within a node, and not against a VM that writes alone and starts after VMs that share or read',
]

test.each<[string, VirtualMachineSpec, VirtualMachineSpec, readonly string[]]>([
  ['write', exclusive, exclusive, warned],
  ['share, the other does not', shared, exclusive, warned],
  ['read, the other writes', reader, exclusive, warned],
  ['write, the other reads', exclusive, reader, warned],
  ['share', shared, shared, []],
  ['read', reader, reader, []],
  ['have a disk and the device state', exclusive, state, []],
  ['have the device state and a disk', state, exclusive, []],
])('two VMs that %s', (_, own, theirs, warnings) => {
  expect(claimWarnings(own, userOf('other', theirs))).toEqual(warnings)
})

const replacing = [
  'the VM "other" has a disk or its device state in the claim "c": the guest can replace it by other files',
]
const replaced = [
  'the VM "other" shares the files of the claim "c": its guest can replace the disk or the device state',
]

const filesystems = [{ type: 'volume' as const, source: { volume: 'data' }, target: { dir: 'data' } }]
const files: VirtualMachineSpec = { domain: { devices: { filesystems } }, volumes: exclusive.volumes ?? [] }

test.each<[string, VirtualMachineSpec, VirtualMachineSpec, readonly string[]]>([
  ['a claim', files, files, []],
  ['a claim in which the other has its disk', files, reader, replacing],
  ['a claim that has the device state of the other', files, state, replacing],
  ['a claim, by the other, that has the device state of one', state, files, replaced],
  ['a claim, by the other, in which one has its disk', reader, files, replaced],
])('two VMs that share the files of %s', (_, own, theirs, warnings) => {
  expect(claimWarnings(own, userOf('other', theirs))).toEqual(warnings)
})

test('for each claim, VMs are looked up by the uses that its own does not allow, however many VMs there are', () => {
  const lookedUp = (spec: VirtualMachineSpec) => {
    const keys: string[] = []
    claimWarnings(spec, (use) => void keys.push(claimKey('default', use)))
    return keys
  }
  const [writer, sharing, reading, sharingFiles] = [
    { claim: 'c', isWriter: true, isShared: false },
    { claim: 'c', isWriter: true, isShared: true },
    { claim: 'c', isWriter: false, isShared: false },
    { claim: 'c', isWriter: true, isShared: true, isFiles: true as const },
  ].map((use) => claimKey('default', use))
  expect([exclusive, shared, reader].map(lookedUp)).toEqual([
    [writer, sharing, reading, sharingFiles],
    [writer, reading, sharingFiles],
    [writer, sharing, sharingFiles],
  ])
})

test('a VM with hundreds of claims is compared by its first ones', () => {
  const names = Array.from({ length: 256 }, (_, index) => `c${index}`)
  const disks = names.map((volume): Disk => ({ type: 'volume', source: { volume }, target: { dev: volume } }))
  const volumes = names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }))
  const attachedVolumes = names
    .slice(0, 16)
    .map((name) => ({ name, persistentVolumeClaim: { claimName: `${name}-a` } }))
  const uses = claimUses({ domain: { devices: { disks } }, volumes, attachedVolumes })
  expect(uses.map(({ claim }) => claim)).toEqual(names.slice(0, 16))
})

test('a key is short, however long the names of the namespace and the claim are', () => {
  const use = { isWriter: true, isShared: false }
  const keys = ['a', 'b'].map((end) => claimKey('n'.repeat(63), { ...use, claim: `${'c'.repeat(252)}${end}` }))
  expect(keys.map(({ length }) => length)).toEqual([22, 22])
  expect(new Set(keys).size).toBe(2)
})

import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isCapabilities, type Capabilities, type MachineType } from '../api/capabilities.ts'
import type { Domain } from '../api/domain/domain.ts'
import { isRecord } from '../api/schema.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { createCandidates } from '../presets/candidates.ts'
import { nodeProfile, olderCapabilities } from '../test/node-profile.ts'
import { bundledCapabilities } from './capabilities.ts'
import { complete } from './complete.ts'
import { nodeCapabilities, noNodes, type NodeCapabilities } from './nodes.ts'

const older = olderCapabilities('10.0')
/** Of another image: VMs that were completed for the bundled profile have other defaults. */
const another: Capabilities = {
  ...bundledCapabilities,
  emulator: '/usr/libexec/qemu-kvm',
  firmware: bundledCapabilities.firmware.map((one) => ({ ...one, features: [...one.features, 'another'] })),
}

const memory = { value: 512, unit: 'MiB' as const }
const on = (machine?: string) => ({ type: { os: 'hvm' as const, ...(machine === undefined ? {} : { machine }) } })
const efi = (machine: string) => ({ os: { ...on(machine), firmware: 'efi' as const }, features: { acpi: {} } })
const vms = [
  { os: on() },
  { os: on('q35'), type: 'kvm' as const, cpu: { mode: 'host-model' as const } },
  { os: on('pc'), vcpu: { value: 4 } },
  efi('q35'),
  efi('pc-q35-9.2'),
].map((domain: Partial<Domain>): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'default' },
  spec: { domain: { type: 'qemu', memory, ...domain } },
}))

function completed(vm: VirtualMachine, capabilities: NodeCapabilities): VirtualMachine | undefined {
  const namespace = { name: 'default', labels: {} }
  const outcome = complete(vm, { presets: createCandidates(), namespace, capabilities, entropy: { uid: 'a' } })
  return outcome.outcome === 'completed' ? outcome.vm : undefined
}

/** Some nodes, and the VMs that they accept, new ones and ones that were stored before there were nodes. */
function cluster(...kinds: readonly [Capabilities, ...Capabilities[]]) {
  const profiles = kinds.map((capabilities, index) => nodeProfile(`node-${index}`, capabilities))
  const alone = nodeCapabilities(profiles)
  const stored = vms.flatMap((vm) => completed(vm, noNodes) ?? [])
  const accepted = [...vms, ...stored].flatMap((vm) => {
    const expected = completed(vm, alone)
    return expected === undefined ? [] : [{ vm, expected }]
  })
  return { kind: kinds[0], profiles, accepted }
}

/** The VMs that change or are refused if one more node, first or last of all, has published this. */
function changedBy({ profiles, accepted }: ReturnType<typeof cluster>, published: unknown) {
  const one = isCapabilities(published) ? published : undefined
  return ['aaa', 'zzz'].flatMap((name) => {
    const added = one === undefined ? [] : [nodeProfile(name, one)]
    const known = nodeCapabilities(name === 'aaa' ? [...added, ...profiles] : [...profiles, ...added])
    return accepted.flatMap(({ vm, expected }) => {
      const actual = completed(vm, known)
      return isDeepStrictEqual(actual, expected) ? [] : [{ name, expected, actual }]
    })
  })
}

type Edit = (of: Capabilities) => unknown

const withMachine =
  (name: string, more: Partial<MachineType>): Edit =>
  (of) => ({ ...of, machines: of.machines.map((one) => (one.name === name ? { ...one, ...more } : one)) })

/** Replaces the value at a path of indexes. */
function edited(value: unknown, [first, ...rest]: readonly number[], change: (value: unknown) => unknown): unknown {
  if (first === undefined || typeof value !== 'object' || value === null) return change(value)
  const entries = Object.entries(value)
  const at = first % Math.max(1, entries.length)
  const replaced = entries.map(([key, one], index) => [key, index === at ? edited(one, rest, change) : one] as const)
  return Array.isArray(value) ? replaced.map(([, one]) => one) : Object.fromEntries(replaced)
}

const ofList = (change: (list: readonly unknown[]) => readonly unknown[]) => (value: unknown) =>
  Array.isArray(value) ? change(value) : value
const ofRecord = (change: (entries: [string, unknown][]) => [string, unknown][]) => (value: unknown) =>
  isRecord(value) ? Object.fromEntries(change(Object.entries(value))) : value
const renamed = (value: unknown, prefix: string, suffix: string) =>
  isRecord(value) && typeof value['name'] === 'string' ? { ...value, name: prefix + value['name'] + suffix } : value

const changes: readonly ((value: unknown) => unknown)[] = [
  ofList(() => []),
  ofList((list) => list.slice(1)),
  ofList((list) => list.toReversed()),
  ofList((list) => [...list, ...list]),
  ofList((list) => [...list.map((one) => renamed(one, '', '0')), ...list]),
  ofList((list) => [...list.map((one) => renamed(one, '0', '')), ...list]),
  ofRecord((entries) => entries.slice(1)),
  ofRecord((entries) => entries.slice(0, -1)),
  (value) => (typeof value === 'boolean' ? !value : value),
  (value) => (typeof value === 'number' ? 0 : value),
  (value) => (typeof value === 'string' ? '' : value),
  (value) => (typeof value === 'string' ? `${value}0` : value),
]

describe.each([
  ['equal nodes', cluster(bundledCapabilities, bundledCapabilities, bundledCapabilities)],
  ['nodes with another image than VMs were stored for', cluster(another, another, another)],
  ['nodes of which half have been updated', cluster(bundledCapabilities, older, bundledCapabilities, older)],
])('among %s, one more node changes or refuses no VM', (_, nodes) => {
  test('some VMs are accepted', () => expect(nodes.accepted.length).toBeGreaterThanOrEqual(5))

  test.each<[string, Edit]>([
    ['has a second q35', withMachine('x-remote', { alias: 'q35' })],
    ['has a second pc', withMachine('x-remote', { alias: 'pc' })],
    ['has a second default, an older one', withMachine('pc-i440fx-2.4', { isDefault: true })],
    ['has a second default, of another family', withMachine('pc-q35-9.2', { isDefault: true })],
    ['has its machine types in another order', (of) => ({ ...of, machines: of.machines.toReversed() })],
    ['has its firmware in another order', (of) => ({ ...of, firmware: of.firmware.toReversed() })],
    [
      'has firmware without a file',
      ({ firmware: [first, ...rest], ...of }) => ({
        ...of,
        firmware: [{ ...first, interfaces: ['uefi'], mapping: { device: 'flash', mode: 'split' } }, ...rest],
      }),
    ],
  ])('that %s', (__, edit) => expect(changedBy(nodes, edit(nodes.kind))).toEqual([]))

  test('whatever it publishes', () => {
    const path = fc.array(fc.nat(300), { minLength: 1, maxLength: 6 })
    const edit = fc.tuple(path, fc.constantFrom(...changes))
    fc.assert(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 3 }), (edits) => {
        const published = edits.reduce<unknown>((of, [at, change]) => edited(of, at, change), nodes.kind)
        expect(changedBy(nodes, published)).toEqual([])
      }),
      { numRuns: 30 },
    )
  })
})

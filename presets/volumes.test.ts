import { expect, test } from 'vitest'
import { clusterPreset, injectSmall, preset, team, vmWith } from '../test/presets/make.ts'
import { createCandidates } from './candidates.ts'
import { inject } from './inject.ts'

type Given = { readonly [key: string]: unknown }

const volume = (name: string, capacity = '1Gi') => ({ name, emptyDisk: { capacity } })
const using = (name: string, dev: string, more: Given = {}) => ({
  type: 'volume',
  source: { volume: name },
  target: { dev },
  ...more,
})
const file = (dev: string, more: Given = {}) => ({
  type: 'file',
  source: { file: `/${dev}` },
  target: { dev },
  ...more,
})
const spec = (disks: unknown[], ...volumes: unknown[]) => ({
  ...(disks.length === 0 ? {} : { domain: { devices: { disks } } }),
  ...(volumes.length === 0 ? {} : { volumes }),
})
const vm = (disks: unknown[], ...volumes: unknown[]) => {
  const { domain = {}, ...others } = spec(disks, ...volumes)
  return vmWith(domain, { spec: others })
}
const skips = ({ skipped }: ReturnType<typeof injectSmall>) => skipped.map(({ path, reason }) => `${path} ${reason}`)

test('of several volumes of a preset, only the one that loses is left out, with its disk', () => {
  const result = injectSmall(vm([], volume('data', '2Gi')), [
    preset(
      'p',
      spec([using('data', 'vda', { serial: 's' }), using('logs', 'vdb'), file('vdc')], volume('data'), volume('logs')),
    ),
  ])
  expect(result.vm.spec).toEqual(spec([using('logs', 'vdb'), file('vdc')], volume('data', '2Gi'), volume('logs')))
  expect(skips(result)).toEqual([
    'spec.domain.devices.disks[0] volume-lost',
    'spec.domain.devices.disks[target.dev=vda] no-such-item',
    'spec.volumes[0] volume-lost',
  ])
  expect(result.warnings).toEqual([])
})

test('a file system comes with the volume that it shares, or not at all', () => {
  const shares = (name: string) => ({ type: 'volume', source: { volume: name }, target: { dir: name }, readonly: {} })
  const filesystems = { domain: { devices: { filesystems: [shares('data'), shares('logs'), shares('none')] } } }
  const given = vm([], volume('data', '2Gi'))
  const presets = createCandidates([preset('p', { ...filesystems, volumes: [volume('data'), volume('logs')] })])
  const result = inject(given, { presets, namespace: team })
  expect(result.vm.spec.domain).toEqual({ devices: { filesystems: [shares('logs')] } })
  expect(result.vm.spec.volumes).toEqual([volume('data', '2Gi'), volume('logs')])
  expect(result.warnings).toEqual(['preset "team/p": its device is left out because its volume "none" is missing'])
})

test('what is left of such a disk changes the disk that exists, but not its source', () => {
  const result = injectSmall(vm([{ type: 'volume', target: { dev: 'vda' } }], volume('data', '2Gi')), [
    preset('p', spec([using('data', 'vda', { serial: 's' })], volume('data'))),
  ])
  expect(result.vm.spec.domain).toEqual({
    devices: { disks: [{ type: 'volume', target: { dev: 'vda' }, serial: 's' }] },
  })
})

test('of several disks, only the one whose volume is missing is left out, with a warning', () => {
  const result = injectSmall(vm([]), [
    preset('p', spec([using('data', 'vda'), using('logs', 'vdb'), file('vdc')], volume('logs'))),
  ])
  expect(result.vm.spec).toEqual(spec([using('logs', 'vdb'), file('vdc')], volume('logs')))
  expect(skips(result)).toEqual([
    'spec.domain.devices.disks[0] volume-missing',
    'spec.domain.devices.disks[target.dev=vda] no-such-item',
  ])
  expect(result.warnings).toEqual(['preset "team/p": its device is left out because its volume "data" is missing'])
})

test("the user's volume changes under Enforce, and the user's disk remains", () => {
  const { vm: result } = injectSmall(vm([using('data', 'vda')], volume('data')), [
    preset('e', { strength: 'Enforce', ...spec([], volume('data', '2Gi')) }),
  ])
  expect(result.spec).toEqual(spec([using('data', 'vda')], volume('data', '2Gi')))
})

test('no part of a volume that loses is added to the one that wins', () => {
  const claim = (claimName: string, more: Given = {}) => ({
    name: 'data',
    persistentVolumeClaim: { claimName, ...more },
  })
  const result = injectSmall(vm([using('data', 'vda')], claim('own')), [
    preset('p', spec([], claim('other', { readOnly: true }))),
  ])
  expect(result.vm.spec).toEqual(spec([using('data', 'vda')], claim('own')))
  expect(skips(result)).toEqual(['spec.volumes[0] volume-lost'])
})

test("a user's disk whose volume is missing is not the concern of presets", () => {
  const { vm: result, warnings } = injectSmall(vm([using('none', 'vda')]), [preset('p', spec([], volume('data')))])
  expect([result.spec, warnings]).toEqual([spec([using('none', 'vda')], volume('data')), []])
})

test.each<[string, Given]>([
  [
    'in a storage pool of libvirt',
    { type: 'volume', source: { pool: 'default', volume: 'data' }, target: { dev: 'vda' } },
  ],
  ['of another type', { type: 'network', source: { name: 'n', volume: 'data' }, target: { dev: 'vda' } }],
  ['without a name', { type: 'volume', source: { volume: 5 }, target: { dev: 'vda' } }],
])('a disk %s needs no volume of the VM', (_, disk) => {
  expect(injectSmall(vm([]), [preset('p', spec([disk], volume('logs')))]).warnings).toEqual([])
})

test('volumes in conflict leave out no disk', () => {
  const { vm: result, causes } = injectSmall(vm([]), [
    preset('a', spec([using('data', 'vda')], volume('data'))),
    preset('b', spec([using('data', 'vdb')], volume('data', '2Gi'))),
  ])
  expect(causes.map(({ field }) => field)).toEqual(['spec.volumes[0].emptyDisk.capacity'])
  expect(result.spec.domain).toEqual({ devices: { disks: [using('data', 'vda'), using('data', 'vdb')] } })
})

test.each<[string, ReturnType<typeof vm>, Given, Given]>([
  [
    "a user's volume that no disk used remains",
    vm([using('data', 'vda')], volume('spare'), volume('data')),
    {},
    spec([], volume('spare')),
  ],
  [
    "a user's volume that another disk uses remains",
    vm([using('data', 'vda'), using('data', 'vdb')], volume('data')),
    {},
    spec([using('data', 'vdb')], volume('data')),
  ],
  [
    "a preset's volume without a disk remains",
    vm([using('data', 'vda')], volume('data')),
    spec([], volume('more')),
    spec([], volume('more')),
  ],
  ["a preset's volume goes with its disk", vm([]), spec([using('data', 'vda')], volume('data')), {}],
  [
    "a volume that both have and only the user's disk used remains",
    vm([using('data', 'vda')], volume('data')),
    spec([], volume('data')),
    spec([], volume('data')),
  ],
])('when a disk is removed, %s', (_, sent, given, expected) => {
  const removes = clusterPreset('r', { strength: 'Enforce', remove: ['domain.devices.disks[target.dev=vda]'] })
  const { vm: result } = injectSmall(sent, [preset('p', given), removes])
  expect({ domain: {}, ...expected }).toEqual(result.spec)
})

test('a volume that a stronger preset sets remains when the disk that others gave it is removed', () => {
  const data = spec([using('data', 'vda')], volume('data'))
  const { vm: result } = injectSmall(vm([using('data', 'vda')], volume('data')), [
    clusterPreset('c', { strength: 'Enforce', ...spec([], volume('data', '2Gi')) }),
    preset('p', data),
    preset('r', { strength: 'Enforce', remove: ['domain.devices.disks[target.dev=vda]'] }),
  ])
  expect(result.spec).toEqual({ domain: {}, ...spec([], volume('data', '2Gi')) })
})

test.each<[string, readonly ReturnType<typeof preset>[], Given]>([
  ['', [preset('e', { strength: 'Enforce', domain: { title: 'a' } })], { title: 'a' }],
  [
    ' after the volume of a preset was removed from it',
    [
      preset('p', spec([using('data', 'vda')], volume('data'))),
      clusterPreset('r', { strength: 'Enforce', remove: ['domain.devices.disks[target.dev=vda]'] }),
    ],
    {},
  ],
])('an empty list of volumes that the user wrote remains%s', (_, presets, domain) => {
  const { vm: result } = injectSmall(vmWith({}, { spec: { volumes: [] } }), presets)
  expect(result.spec).toEqual({ domain, volumes: [] })
})

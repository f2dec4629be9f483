import { describe, expect, test } from 'vitest'
import type { Origin } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Subject } from '../presets/kind.ts'
import { defaultsAlone, draftedGrants, injectedGrants, statedGrants } from './grants.ts'

const bridge = 'spec.domain.devices.interfaces[0].source.bridge'
const lan = { type: 'bridge', source: { bridge: 'br0' } } as const
const cluster: Origin = { by: 'preset', name: 'lan', revision: '1' }
const other: Origin = { by: 'preset', name: 'other', revision: '1' }
const tenant: Origin = { by: 'preset', namespace: 'team', name: 'cut', revision: '1' }

const vmWith = (devices: NonNullable<VirtualMachine['spec']['domain']['devices']>): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm' },
  spec: { domain: { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } }, devices } },
})

const injected = (
  vm: VirtualMachine,
  stated: { readonly [path: string]: readonly Origin[] },
  removed = {},
  overruled: readonly string[] = [],
) => {
  const found = {
    whole: vm,
    unsettled: [],
    grantorsAt: (path: string) => stated[path] ?? [],
    overruledAt: (path: string) => (overruled.includes(path) ? [cluster] : []),
  }
  return {
    vm,
    removed: new Map<string, Origin>(Object.entries(removed)),
    cut: new Set<string>(),
    grants: { injected: found, statedOf: () => found, enforceOn: (object: Subject) => object },
  }
}

describe('an injected value', () => {
  const vm = vmWith({ interfaces: [lan] })

  test('is granted if presets state all of its leaves', () => {
    expect(injectedGrants(injected(vm, { [bridge]: [cluster] })).isGranted(bridge)).toBe(true)
    expect(injectedGrants(injected(vm, {})).isGranted(bridge)).toBe(false)
  })

  test('is not granted if several presets state a part of its device each', () => {
    const both = vmWith({ interfaces: [{ ...lan, script: { path: '/etc/up' } }] })
    const script = 'spec.domain.devices.interfaces[0].script.path'
    const isGrantedBy = (one: Origin, two: Origin) =>
      injectedGrants(injected(both, { [bridge]: [one], [script]: [two] })).isGranted(bridge)
    expect(isGrantedBy(cluster, cluster)).toBe(true)
    expect(isGrantedBy(cluster, other)).toBe(false)
  })

  test.each([
    [false, 'its list', 'spec.taps'],
    [true, 'another list', 'spec.ports'],
  ])('that is one place: %j if a preset of the namespace removed a part of an item in %s', (expected, _, list) => {
    const withTap = { ...vm, spec: { ...vm.spec, taps: [{ dev: 'tap0', plugin: 'macvtap' }] } }
    const stated = { 'spec.taps[0].dev': [cluster], 'spec.taps[0].plugin': [cluster] }
    const granting = { ...injected(withTap, stated), cut: new Set([list]) }
    expect(injectedGrants(granting).isGranted('spec.taps[0]')).toBe(expected)
    expect(statedGrants(withTap, granting).isGranted('spec.taps[0]')).toBe(expected)
  })
})

describe('a default value', () => {
  const vm = vmWith({ interfaces: [{ type: 'bridge' }] })

  test('needs no grant', () => {
    expect(injectedGrants(injected(vm, {})).isGranted(bridge)).toBe(true)
  })

  test('is not granted if a preset of the namespace removed a part of a device in the list', () => {
    const isGrantedWithout = (removed: { readonly [path: string]: Origin }) =>
      injectedGrants(injected(vm, {}, removed)).isGranted(bridge)
    expect(isGrantedWithout({ 'spec.domain.devices.interfaces[1].model': tenant })).toBe(false)
    expect(isGrantedWithout({ 'spec.domain.devices.interfaces[1].model': cluster })).toBe(true)
    expect(isGrantedWithout({ 'spec.domain.devices.disks[1].driver': tenant })).toBe(true)
  })

  test.each([
    ['spec.domain.title', true],
    ['spec.terminationGracePeriodSeconds', true],
    ['spec.domain.os.bootmenu', true],
    ['spec.domain.os.loader.readonly', false],
  ])('outside of devices is judged by its own element: removing %s leaves it granted: %j', (removed, expected) => {
    expect(injectedGrants(injected(vm, {}, { [removed]: tenant })).isGranted('spec.domain.os.loader.value')).toBe(
      expected,
    )
  })

  test('is not granted if any preset removed a part of what identifies a device in the list', () => {
    const isGrantedWithout = (path: string) => injectedGrants(injected(vm, {}, { [path]: cluster })).isGranted(bridge)
    expect(isGrantedWithout('spec.domain.devices.interfaces[1].source.dev')).toBe(false)
    expect(isGrantedWithout('spec.domain.devices.interfaces[1].source')).toBe(false)
    expect(isGrantedWithout('spec.domain.devices.interfaces[1]')).toBe(true)
  })
})

describe('a value of a stored VM', () => {
  const drafted = vmWith({ interfaces: [lan] })
  const changed = vmWith({ interfaces: [{ ...lan, source: { bridge: 'br1' } }] })
  const granting = injected(drafted, { [bridge]: [cluster] })

  test('is granted as in its draft only if it is equal there', () => {
    expect(draftedGrants(drafted, drafted, granting).isGranted(bridge)).toBe(true)
    expect(draftedGrants(changed, drafted, granting).isGranted(bridge)).toBe(false)
    const renamed = vmWith({ interfaces: [{ ...lan, alias: { name: 'ua-other' } }] })
    expect(draftedGrants(renamed, drafted, granting).isGranted(bridge)).toBe(false)
  })

  test('is granted without its draft if presets state all of its leaves', () => {
    expect(statedGrants(changed, granting).isGranted(bridge)).toBe(true)
    expect(statedGrants(changed, injected(drafted, {})).isGranted(bridge)).toBe(false)
  })

  test('is not granted without its draft if an enforced option of its device is missing', () => {
    const isolated = vmWith({ interfaces: [{ ...lan, port: { isolated: true } }] })
    const enforcing = { ...granting, grants: { ...granting.grants, enforceOn: () => isolated } }
    expect(statedGrants(isolated, enforcing).isGranted(bridge)).toBe(true)
    expect(statedGrants(drafted, enforcing).isGranted(bridge)).toBe(false)
  })
})

test('values that the defaults would set again are attributed to them', () => {
  const emulator = 'spec.domain.devices.emulator'
  const vm = vmWith({ emulator: '/usr/bin/qemu' })
  const filledWith = (path: string) => () => [vmWith({ emulator: path })]
  const grants = injectedGrants(injected(vm, {}))
  expect(defaultsAlone(vm, [emulator], grants, filledWith('/usr/bin/qemu'))(emulator)).toBe(true)
  expect(defaultsAlone(vm, [emulator], grants, filledWith('/usr/bin/other'))(emulator)).toBe(false)
})

test.each([
  ['the default of a part of a device is none', bridge, false],
  ['the default emulator is one', 'spec.domain.devices.emulator', true],
])('where a preset states another value, %s', (_, path, expected) => {
  const vm = vmWith({ emulator: '/usr/bin/qemu', interfaces: [lan] })
  const isDefault = (overruled: readonly string[]) =>
    defaultsAlone(vm, [path], injectedGrants(injected(vm, {}, {}, overruled)), () => [vm])(path)
  expect([isDefault([]), isDefault([path])]).toEqual([true, expected])
})

import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied, i440fx, q35 } from '../../test/applied.ts'
import { ps2Inputs, inputBus } from './input.ts'
import { interruptRemapping, largeIommu, splitIoapic } from './iommu.ts'
import { chipsetOf, hasPci } from './machine.ts'
import { architecture, boot, machine } from './os.ts'
import { q35Watchdog, watchdogAction } from './watchdog.ts'

const named = (name: string): Domain => ({ os: { type: { os: 'hvm', machine: name } } })

test.each([
  ['pc', 'i440fx', true],
  ['pc-i440fx-10.0', 'i440fx', true],
  ['q35', 'q35', true],
  ['pc-q35-4.0.1', 'q35', true],
  ['isapc', 'isapc', false],
  ['microvm', 'microvm', false],
  ['x-remote', 'other', false],
])('%s has the chipset %s (PCI: %s)', (name, chipset, isPci) => {
  expect([chipsetOf(named(name)), hasPci(named(name))]).toEqual([chipset, isPci])
})

describe('the machine type', () => {
  test.each<[string, boolean, string]>([
    ['a new VM has a version', true, 'pc-i440fx-10.0'],
    ['a stored VM has the alias', false, 'pc'],
  ])('%s', (_, isNew, expected) => {
    expect(applied([architecture, machine], {}, { isNew }).os).toEqual({ type: { arch: 'x86_64', machine: expected } })
  })

  test('that is set remains', () => expect(applied([machine], named('q35'))).toEqual(named('q35')))
})

describe('what to boot from', () => {
  test.each<[string, Domain, Domain['os']]>([
    ['is the first disk', {}, { boots: [{ dev: 'hd' }] }],
    ['is as configured', { os: { boots: [{ dev: 'network' }] } }, { boots: [{ dev: 'network' }] }],
    ['is left to a device with a boot order', { devices: { interfaces: [{ boot: { order: 1 } }] } }, undefined],
  ])('%s', (_, domain, expected) => expect(applied([boot], domain).os).toEqual(expected))
})

describe('mouse and keyboard', () => {
  const both = [
    { type: 'mouse', bus: 'ps2' },
    { type: 'keyboard', bus: 'ps2' },
  ]
  const inputs = (domain: Domain): unknown => applied([ps2Inputs, inputBus], { devices: {}, ...domain }).devices?.inputs

  test.each<[string, Domain, object[] | undefined]>([
    ['are on every PC', { os: q35 }, both],
    ['are on isapc', named('isapc'), both],
    ['are not on microvm', named('microvm'), undefined],
    ['are not added without a PS/2 controller', { os: i440fx, features: { ps2: { state: false } } }, undefined],
    [
      'are added to those on USB',
      { os: i440fx, devices: { inputs: [{ type: 'mouse', bus: 'usb' }] } },
      [{ type: 'mouse', bus: 'usb' }, ...both],
    ],
    [
      'are added to a feature list that sets none of them',
      { os: i440fx, devices: { inputs: [{ type: 'mouse' }, { type: 'tablet' }] } },
      [{ type: 'mouse', bus: 'ps2' }, { type: 'tablet', bus: 'usb' }, ...both],
    ],
    ['are not duplicated', { os: i440fx, devices: { inputs: [{ type: 'mouse', bus: 'ps2' }] } }, both],
  ])('%s', (_, domain, expected) => expect(inputs(domain)).toEqual(expected))
})

describe('more than 255 virtual CPUs', () => {
  const rules = [largeIommu, interruptRemapping, splitIoapic]

  test('need an IOMMU on q35', () => {
    expect(applied(rules, { os: q35, vcpu: { value: 256 } })).toEqual({
      os: q35,
      vcpu: { value: 256 },
      devices: { iommu: { model: 'intel', driver: { intremap: true, eim: true } } },
      features: { ioapic: { driver: 'qemu' } },
    })
  })

  test.each<[string, Domain]>([
    ['255', { os: q35, vcpu: { value: 255 } }],
    ['another machine', { os: i440fx, vcpu: { value: 256 } }],
  ])('%s: nothing', (_, domain) => expect(applied(rules, domain)).toEqual(domain))
})

test('q35 has its own watchdog, with the action of the first other one', () => {
  const rules = [watchdogAction, q35Watchdog]
  const watchdogs = (domain: Domain): unknown => applied(rules, { devices: {}, ...domain }).devices?.watchdogs
  expect(watchdogs({ os: q35 })).toEqual([{ model: 'itco', action: 'reset' }])
  expect(watchdogs({ os: q35, devices: { watchdogs: [{ model: 'i6300esb', action: 'poweroff' }] } })).toEqual([
    { model: 'i6300esb', action: 'poweroff' },
    { model: 'itco', action: 'poweroff' },
  ])
  expect(watchdogs({ os: i440fx })).toBeUndefined()
})

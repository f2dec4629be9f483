import { describe, expect, test } from 'vitest'
import { canonicalSpelling } from '../../api/domain/canonical.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { validateDomain } from '../../api/domain/validate.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { minimal, prepare } from '../../test/rule-table.ts'
import { checkRules, rules } from './rules.ts'
import { warnings } from './warnings.ts'

/** A spec with libvirt's defaults; only values from defaults may reach the host. Memory is enforced where it is stated. */
function prepared({ domain, ...more }: VirtualMachineSpec): ReturnType<typeof prepare> {
  const [spec, context] = prepare(domain, more)
  const isEnforced = () => domain.memory !== undefined
  return [spec, { ...context, isGranted: (path) => context.originOf(path).by === 'default', isEnforced }]
}

/** The ids of the rules that a spec violates. */
const broken = (spec: VirtualMachineSpec): string[] => checkRules(...prepared(spec)).causes.map(({ rule }) => rule)

const warned = (spec: VirtualMachineSpec, check: (typeof warnings)[number]['check']): string[] => {
  const [whole, context] = prepared(spec)
  return [...check({ ...context, spec: whole, domain: canonicalSpelling(whole.domain) })]
}

test.each(rules.map((rule) => [rule.id, rule] as const))(
  '%s: refuses one example and accepts its neighbor',
  (id, rule) => {
    const { breaks, holds } = rule.example
    expect(validateDomain({ ...minimal, ...breaks.domain })).toEqual([])
    expect(validateDomain({ ...minimal, ...holds.domain })).toEqual([])
    expect(broken(breaks)).toContain(id)
    expect(broken(holds).filter((one) => one === id || !one.startsWith('host-'))).toEqual([])
  },
)

test.each(warnings.map((warning) => [warning.id, warning] as const))(
  '%s: warns in one short line',
  (_, { check, example }) => {
    const lines = warned(example.breaks, check)
    expect(lines.length).toBe(1)
    expect(lines.filter((line) => line.length >= 120)).toEqual([])
    expect(warned(example.holds, check)).toEqual([])
    expect(broken(example.holds).filter((rule) => !rule.startsWith('host-'))).toEqual([])
  },
)

const virtioConsole = (address: object): Domain => ({
  devices: { consoles: [{ target: { type: 'virtio' }, address: { type: 'virtio-serial', ...address } }] },
})

const switchPort = (address: object): Domain => ({
  os: { type: { os: 'hvm', machine: 'q35' } },
  devices: {
    controllers: [
      { type: 'pci', model: 'pcie-root' },
      { type: 'pci', model: 'pcie-switch-downstream-port', ...address },
    ],
  },
})

/** Cases beyond the examples, each checked with libvirt. */
test.each<[string, Domain, string[]]>([
  ['a console on controller 1 without a controller 0', virtioConsole({ controller: 1 }), ['virtio-serial-port']],
  ['a console on controller 0', virtioConsole({ controller: 0 }), []],
  ['a console with a port', virtioConsole({ controller: 1, port: '3' }), []],
  ['a switch port without its switch', switchPort({}), ['pci-order']],
  ['a switch port with an empty address', switchPort({ address: { type: 'pci' } }), ['pci-order']],
  ['statistics without a period', { devices: { memballoon: { model: 'virtio', stats: {} } } }, ['required-field']],
])('%s', (_, domain, ids) => expect(broken({ domain })).toEqual(ids))

test('ids are unique and in kebab case', () => {
  const ids = [...rules, ...warnings].map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.filter((id) => !/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(id))).toEqual([])
})

/** The rules and fields of the causes for a domain from which invalid values were removed. */
const remaining = (domain: Domain, without: readonly string[]): string[] => {
  const [spec, context] = prepare(domain)
  return checkRules(spec, { ...context, without }).causes.map(({ rule, field }) => `${rule} ${field}`)
}

const tseg: Domain = {
  os: { type: { os: 'hvm', machine: 'q35' } },
  features: { smm: { state: true, tseg: { unit: 'KiB', value: 12_345 } } },
}
const twoBootOrders: Domain = {
  devices: {
    watchdogs: [{ action: 'reset' }],
    disks: [
      { source: { file: '/a' }, target: { dev: 'vda' }, boot: {} },
      { source: { file: '/b' }, target: { dev: 'vdb' }, boot: {} },
    ],
  },
}
const wholeTseg = 'smm-tseg spec.domain.features.smm.tseg.value'
const watchdog = 'required-field spec.domain.devices.watchdogs[0].model'
const [firstDisk, secondDisk] = [0, 1].map((index) => `required-field spec.domain.devices.disks[${index}].boot.order`)

describe('without invalid values', () => {
  test.each<[string, Domain, string[], string[]]>([
    ['reports everything if nothing was removed', tseg, [], [wholeTseg]],
    ['reports what does not depend on the removed value', tseg, ['spec.domain.title'], [wholeTseg]],
    ['reports what does not depend on a removed member of the spec', tseg, ['spec.volumes[0].name'], [wholeTseg]],
    ['drops causes of a rule that reads the removed value', tseg, ['spec.domain.features.smm.state'], []],
    ['reports all devices if nothing was removed', twoBootOrders, [], [firstDisk, secondDisk, watchdog].map(String)],
    [
      'drops the causes of a device from which a value was removed',
      twoBootOrders,
      ['spec.domain.devices.disks[1].target.dev'],
      [String(firstDisk), watchdog],
    ],
  ])('%s', (_, domain, without, expected) => expect(remaining(domain, without).toSorted()).toEqual(expected.toSorted()))

  test('drops causes about a default that replaces the removed value', () => {
    const [spec, context] = prepare({ memory: {}, currentMemory: { unit: 'GiB', value: 1 } }, { base: {} })
    const byDefault = { ...context, originOf: () => ({ by: 'default', rule: 'memory' }) as const }
    const fields = (without: readonly string[]) =>
      checkRules(spec, { ...byDefault, without }).causes.map(({ field }) => field)
    expect(fields([])).toContain('spec.domain.memory')
    expect(fields(['spec.domain.title'])).toEqual([])
  })
})

const withoutModel = (count: number): Domain => ({
  devices: { watchdogs: Array.from({ length: count }, () => ({ action: 'reset' as const })) },
})

test.each([
  [256, 256, undefined],
  [257, 257, 1],
  [300, 257, 44],
])('of %i causes, counts those beyond the limit', (count, expected, more) => {
  const [spec, context] = prepare({})
  const domain = { ...spec.domain, devices: withoutModel(count).devices ?? {} }
  const { causes } = checkRules({ ...spec, domain }, context)
  const found = causes.filter(({ rule }) => rule === 'required-field' || rule === 'too-many-faults')
  expect(found.length).toBe(expected)
  expect(found.find(({ rule }) => rule === 'too-many-faults')?.value).toBe(more)
})

test('gives at most 20 warnings, each in one short line', () => {
  const model = { type: 'x'.repeat(200) }
  const [spec, context] = prepare({
    devices: { interfaces: Array.from({ length: 21 }, () => ({ type: 'user', model })) },
  })
  const lines = checkRules(spec, context).warnings
  expect(lines.length).toBe(20)
  expect(lines[19]).toMatch(/^devices\.interfaces\[19\]: QEMU has no network card "x{30}"/)
})

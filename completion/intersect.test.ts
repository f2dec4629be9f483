import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Capabilities, CpuModel, Firmware, MachineType } from '../api/capabilities.ts'
import { bundledCapabilities } from './capabilities.ts'
import { intersect } from './intersect.ts'

const plain: Capabilities = {
  architecture: 'x86_64',
  version: '10.0.0',
  emulator: '/usr/bin/qemu-system-x86_64',
  machines: [],
  devices: [],
  accelerators: {},
  hyperv: [],
  words: {},
  firmware: [],
}

const q35 = (version: string, more: Partial<MachineType> = {}): MachineType => ({
  name: `pc-q35-${version}`,
  maxCpus: 288,
  hasAcpi: true,
  ...more,
})
const model = (name: string, ...blockers: string[]): CpuModel => ({ name, blockers })
const firmware = (name: string, ...features: string[]): Firmware => ({
  name,
  interfaces: ['bios'],
  mapping: { device: 'memory', path: `/fw/${name}` },
  targets: [],
  features,
})

describe('the capabilities of two nodes', () => {
  const cases: [string, Partial<Capabilities>, Partial<Capabilities>, Partial<Capabilities>][] = [
    ['QEMU is the older one', { version: '10.0.2' }, { version: '9.2.13' }, { version: '9.2.13' }],
    ['10 is newer than 2', { version: '10.0.10' }, { version: '10.0.2' }, { version: '10.0.2' }],
    ['a device is on both', { devices: ['VGA', 'lsi'] }, { devices: ['VGA'] }, { devices: ['VGA'] }],
    [
      'include a machine type that both have',
      { machines: [q35('9.2'), q35('10.0')] },
      { machines: [q35('9.2')] },
      { machines: [q35('9.2')] },
    ],
    [
      'point an alias and the default to the newest common version',
      { machines: [q35('10.0'), q35('10.1', { alias: 'q35', isDefault: true }), q35('9.2')] },
      { machines: [q35('10.0', { alias: 'q35', isDefault: true }), q35('9.2')] },
      { machines: [q35('10.0', { alias: 'q35', isDefault: true }), q35('9.2')] },
    ],
    [
      'point an alias to a version with more parts',
      { machines: [q35('4.0'), q35('4.0.1'), q35('4.1', { alias: 'q35' })] },
      { machines: [q35('4.0'), q35('4.0.1', { alias: 'q35' })] },
      { machines: [q35('4.0'), q35('4.0.1', { alias: 'q35' })] },
    ],
    [
      'do not make an alias newer than on any node',
      { machines: [q35('10.0'), q35('9.2', { alias: 'q35' })] },
      { machines: [q35('10.0', { alias: 'q35' }), q35('9.2')] },
      { machines: [q35('10.0'), q35('9.2', { alias: 'q35' })] },
    ],
    [
      'omit an alias that refers to different machine families',
      {
        machines: [
          { ...q35('1'), name: 'a-1.0', alias: 'x' },
          { ...q35('1'), name: 'b-1.0' },
        ],
      },
      {
        machines: [
          { ...q35('1'), name: 'a-1.0' },
          { ...q35('1'), name: 'b-1.0', alias: 'x' },
        ],
      },
      {
        machines: [
          { ...q35('1'), name: 'a-1.0' },
          { ...q35('1'), name: 'b-1.0' },
        ],
      },
    ],
    [
      'combine the properties of a machine type',
      { machines: [q35('9.2', { maxCpus: 4096, canHotplugCpus: true, hasLegacyNumaMemory: true, cpu: 'qemu64' })] },
      { machines: [q35('9.2', { maxCpus: 288, isDeprecated: true, hasAcpi: false, cpu: 'qemu32' })] },
      { machines: [q35('9.2', { maxCpus: 288, isDeprecated: true, hasAcpi: false })] },
    ],
    [
      'include KVM if both have it',
      { accelerators: { kvm: { cpuModels: [] }, qemu: { cpuModels: [] } } },
      { accelerators: { qemu: { cpuModels: [] } } },
      { accelerators: { qemu: { cpuModels: [] } } },
    ],
    [
      'combine the blockers of a CPU model',
      {
        accelerators: {
          kvm: { cpuModels: [model('EPYC', 'npt'), model('Old')], hostModel: { model: 'EPYC', features: [] } },
        },
      },
      {
        accelerators: { kvm: { cpuModels: [model('EPYC', 'lbrv', 'npt')], hostModel: { model: 'Old', features: [] } } },
      },
      { accelerators: { kvm: { cpuModels: [model('EPYC', 'lbrv', 'npt')] } } },
    ],
    [
      'include words that both have, and subjects that only one reports',
      { words: { 'video.modelType': ['bochs', 'vga'], 'tpm.model': ['tpm-tis'] } },
      { words: { 'video.modelType': ['vga'] } },
      { words: { 'video.modelType': ['vga'], 'tpm.model': ['tpm-tis'] } },
    ],
    ['include the host that only one reports', { host: { numaNodes: 4 } }, {}, { host: { numaNodes: 4 } }],
    [
      'combine the NUMA nodes and page sizes of both hosts',
      { host: { numaNodes: 4, pageSizes: [4, 2048] } },
      { host: { numaNodes: 1, pageSizes: [4] } },
      { host: { numaNodes: 1, pageSizes: [4] } },
    ],
    [
      'include firmware that is equal on both',
      { firmware: [firmware('40'), firmware('50', 'secure-boot')] },
      { firmware: [firmware('40'), firmware('50')] },
      { firmware: [firmware('40')] },
    ],
    ['enlightenments are on both', { hyperv: ['relaxed', 'vapic'] }, { hyperv: ['vapic'] }, { hyperv: ['vapic'] }],
  ]

  test.each(cases)('%s', (_, a, b, both) => {
    expect(
      intersect([
        { ...plain, ...a },
        { ...plain, ...b },
      ]),
    ).toEqual({ ...plain, ...both })
    expect(
      intersect([
        { ...plain, ...b },
        { ...plain, ...a },
      ]),
    ).toEqual({ ...plain, ...both })
  })

  test('of one node are its own', () => expect(intersect([bundledCapabilities])).toBe(bundledCapabilities))
})

describe('laws', () => {
  const sorted = <T>(value: fc.Arbitrary<T>, key: (one: T) => string): fc.Arbitrary<T[]> =>
    fc
      .uniqueArray(value, { selector: key, maxLength: 4 })
      .map((list) => list.toSorted((a, b) => (key(a) < key(b) ? -1 : 1)))
  const word = fc.constantFrom('a', 'b', 'c', 'd')
  const words = sorted(word, (one) => one)
  const flag = fc.constant(true as const)
  const machine = fc.record(
    {
      name: fc.constantFrom('pc-q35-9.2', 'pc-q35-10.0', 'pc-q35-10.1', 'pc-i440fx-9.2', 'pc-i440fx-10.0', 'isapc'),
      maxCpus: fc.constantFrom(1, 255, 4096),
      hasAcpi: fc.boolean(),
      cpu: word,
      isDeprecated: flag,
      canHotplugCpus: flag,
      hasLegacyNumaMemory: flag,
    },
    { requiredKeys: ['name', 'maxCpus', 'hasAcpi'] },
  )
  /** One of the machine types has the alias, and one is the default. */
  const machines = fc
    .tuple(
      sorted(machine, ({ name }) => name),
      fc.nat(3),
      fc.nat(3),
    )
    .map(([list, alias, standard]): MachineType[] =>
      list.map((one, index) => ({
        ...one,
        ...(index === alias ? { alias: 'q35' } : {}),
        ...(index === standard ? { isDefault: true } : {}),
      })),
    )
  const cpuModel = fc.record(
    { name: word, vendor: word, canonical: word, blockers: words },
    { requiredKeys: ['name', 'blockers'] },
  )
  const accelerator = fc.record(
    {
      cpuModels: sorted(cpuModel, ({ name }) => name),
      hostModel: fc.record({ model: word, features: fc.constant([]) }),
    },
    { requiredKeys: ['cpuModels'] },
  )
  const profile = fc
    .record<Capabilities>(
      {
        architecture: fc.constant('x86_64'),
        version: fc.constantFrom('9.2.4', '10.0.2', '10.0.13'),
        emulator: word,
        machines,
        devices: words,
        accelerators: fc.record({ kvm: accelerator, qemu: accelerator }, { requiredKeys: [] }),
        hyperv: words,
        words: fc.dictionary(word, words),
        host: fc.record(
          { numaNodes: fc.nat(3), pageSizes: fc.constantFrom([4], [4, 2048], [2048]) },
          { requiredKeys: [] },
        ),
        firmware: sorted(
          fc.record({ name: word, features: words }).map((one) => firmware(one.name, ...one.features)),
          ({ name }) => name,
        ),
      },
      {
        requiredKeys: [
          'architecture',
          'version',
          'emulator',
          'machines',
          'devices',
          'accelerators',
          'hyperv',
          'words',
          'firmware',
        ],
      },
    )
    // fast-check creates objects without a prototype, JSON does not.
    .map((one) => structuredClone(one))

  test('intersecting a node with itself changes nothing', () =>
    fc.assert(
      fc.property(profile, (a) => {
        expect(intersect([a, structuredClone(a)])).toEqual(a)
      }),
    ))

  test('the order of nodes does not matter', () =>
    fc.assert(
      fc.property(profile, profile, (a, b) => {
        expect(intersect([a, b])).toEqual(intersect([b, a]))
      }),
    ))

  test('nor does the grouping', () =>
    fc.assert(
      fc.property(profile, profile, profile, (a, b, c) => {
        expect(intersect([intersect([a, b]), c])).toEqual(intersect([a, intersect([b, c])]))
      }),
    ))
})

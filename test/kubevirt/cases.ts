/**
 * What the unit tests of KubeVirt's own presets check (`mutators/preset_test.go` in its Go module), as cases for presets
 * of virtset. One difference is intended: on a conflict, KubeVirt creates the object without any preset.
 */
export interface Case {
  readonly name: string
  /** The presets that select the object. */
  readonly presets: readonly string[]
  readonly annotations?: { readonly [key: string]: string }
  /** What its author wrote in the domain. */
  readonly domain?: Domain
  /** The domain that is stored. */
  readonly expected?: Domain
  /** The fields for which the object is refused. */
  readonly refused?: readonly string[]
}

type Domain = { readonly [key: string]: unknown }

/** Of each field that these presets knew, what a preset sets and another value of a user. */
const values: { readonly [name: string]: readonly [preset: Domain, user: Domain] } = {
  cpu: [{ cpu: { cores: 4 } }, { cpu: { cores: 6 } }],
  resources: [{ resources: { requests: { memory: '64M' } } }, { resources: { requests: { memory: '128M' } } }],
  firmware: [
    { firmware: { uuid: '11112222-3333-4444-5555-666677778888' } },
    { firmware: { uuid: '88887777-6666-5555-4444-333322221111' } },
  ],
  clock: [
    { clock: { timer: { hpet: { tickPolicy: 'delay' } } } },
    { clock: { timer: { hpet: { tickPolicy: 'catchup' } } } },
  ],
  features: [
    { features: { acpi: { enabled: true }, apic: { enabled: false } } },
    { features: { acpi: { enabled: false }, apic: { enabled: true } } },
  ],
  watchdog: [
    { devices: { watchdog: { name: 'testcase', i6300esb: { action: 'reset' } } } },
    { devices: { watchdog: { name: 'other', i6300esb: { action: 'poweroff' } } } },
  ],
  iothreads: [{ ioThreadsPolicy: 'shared' }, { ioThreadsPolicy: 'auto' }],
}

/** The presets by name. Each selects the objects with the label `example.org/NAME`. */
export const casePresets: { readonly [name: string]: Domain } = {
  ...Object.fromEntries(Object.entries(values).map(([name, [preset]]) => [name, preset])),
  duplicate: { resources: { requests: { memory: '64M' } } },
  larger: { resources: { requests: { memory: '128M' } } },
}

const memory = ['spec.domain.resources.requests.memory']

export const cases: readonly Case[] = [
  ...Object.entries(values).flatMap(([name, [preset, user]]): readonly Case[] => [
    { name: `applies ${name}`, presets: [name], expected: preset },
    { name: `${name} of the user with the same value`, presets: [name], domain: preset, expected: preset },
    { name: `${name} of the user overrides`, presets: [name], domain: user, expected: user },
  ]),
  { name: 'presets with other values conflict', presets: ['resources', 'larger'], refused: memory },
  {
    name: 'a preset beside a conflict is not applied either',
    presets: ['resources', 'larger', 'cpu'],
    refused: memory,
  },
  {
    name: 'presets with the same value do not conflict',
    presets: ['resources', 'duplicate', 'cpu'],
    expected: { ...casePresets['resources'], ...casePresets['cpu'] },
  },
  {
    name: 'a value of the user settles a conflict',
    presets: ['resources', 'larger'],
    domain: { resources: { requests: { memory: '1G' } } },
    expected: { resources: { requests: { memory: '1G' } } },
  },
  {
    name: 'an object can exclude a preset',
    presets: ['cpu', 'resources'],
    annotations: { 'virtset.io/exclude-presets': 'cpu' },
    expected: casePresets['resources'] ?? {},
  },
  { name: 'a preset with another selector does not match', presets: ['none'], expected: {} },
]

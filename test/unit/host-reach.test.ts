import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { completedByAnnotation, type VirtualMachine } from '../../api/machine.ts'
import type { Preset, PresetSpec } from '../../api/preset.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete, ungrantedReach, type Completed } from '../../completion/complete.ts'
import { decodeProvenance } from '../../completion/provenance.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { compilePreset } from '../../presets/compile.ts'

/**
 * Everything that reaches the host in a stored VM is stated by a cluster preset that matches it, or filled in by completion itself.
 * These are ways in which somebody tried to get more (docs/decisions/reach.md).
 */
type Labels = Readonly<Record<string, string>>

const apiVersion = 'virtset.io/v1alpha1'

const base: Domain = { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } }

const vm = (domain: Domain, labels: Labels = {}, annotations: Labels = {}): VirtualMachine => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'team', labels, annotations },
  spec: { domain: { ...base, ...domain } },
})

/** A VM that says who put what where: the last origin of `by` is the place's. */
const claiming = (machine: VirtualMachine, claim: object): VirtualMachine => ({
  ...machine,
  metadata: {
    ...machine.metadata,
    annotations: { ...machine.metadata.annotations, [completedByAnnotation]: JSON.stringify({ v: 1, ...claim }) },
  },
})

const cluster = (name: string, spec: Partial<PresetSpec>): Preset => ({
  apiVersion,
  kind: 'ClusterVirtualMachinePreset',
  metadata: { name },
  spec: { selector: {}, ...spec },
})

const namespaced = (name: string, spec: Partial<PresetSpec>): Preset => ({
  apiVersion,
  kind: 'VirtualMachinePreset',
  metadata: { name, namespace: 'team' },
  spec: { selector: {}, ...spec },
})

const options = (presets: readonly Preset[], namespace = 'team') => ({
  presets: createCandidates(
    presets.map((preset) => {
      const compiled = compilePreset(preset)
      if ('quarantined' in compiled) throw new Error(JSON.stringify(compiled.quarantined.causes))
      return compiled.preset
    }),
  ),
  namespace: { name: namespace, labels: {} },
  capabilities,
  entropy: { uid: 'request' },
})

const run = (machine: VirtualMachine, presets: readonly Preset[]) => complete(machine, options(presets))

function completed(machine: VirtualMachine, presets: readonly Preset[]): Completed {
  const outcome = run(machine, presets)
  if (outcome.outcome === 'refused') throw new Error(JSON.stringify(outcome.causes, null, 2))
  return outcome
}

/** The fields that are refused since they reach the host. */
const refused = (machine: VirtualMachine, presets: readonly Preset[]): string[] => {
  const outcome = run(machine, presets)
  return outcome.outcome === 'refused'
    ? outcome.causes.filter(({ rule }) => rule === 'host-reach').map(({ field }) => field.replace('spec.domain.', ''))
    : []
}

const usb = (vendor: string, product: string) =>
  ({ mode: 'subsystem', type: 'usb', source: { vendor: { id: vendor }, product: { id: product } } }) as const
const granted = usb('0x1050', '0x0407')
const alsoGranted = usb('0x1234', '0xbeef')
const stolen = usb('0xdead', '0x0001')
const usbPreset = cluster('usb', { domain: { devices: { hostdevs: [granted, alsoGranted] } } })

/** Fields of the USB device at a place of the list; the mode is what completion would fill in. */
const usbFields = (index: number) =>
  ['type', 'source.vendor.id', 'source.product.id'].map((field) => `devices.hostdevs[${index}].${field}`)

describe('a claim grants nothing', () => {
  const device = (place: number) => ({ mode: place, type: place, source: place })
  const claimed = {
    by: [['', 'usb', 'r'], '=uuid'],
    at: { metadata: { labels: { drop: 1 } }, spec: { domain: { devices: { hostdevs: { 0: 0, 1: 0 } } } } },
  }
  const drop = namespaced('drop', {
    selector: { matchLabels: { drop: 'yes' } },
    strength: 'Enforce',
    remove: ['domain.devices.hostdevs[0]'],
  })
  const chain = [
    namespaced('label', { selector: { matchLabels: { chain: 'yes' } }, metadata: { labels: { drop: 'yes' } } }),
    drop,
    usbPreset,
  ]

  test.each<[string, VirtualMachine, Preset[]]>([
    [
      'when a preset that the claim hides moves the items',
      claiming(vm({ devices: { hostdevs: [granted, alsoGranted, stolen] } }, { drop: 'yes' }), claimed),
      [drop, usbPreset],
    ],
    [
      'when the preset that moves the items is selected by a label that another one injects',
      claiming(vm({ devices: { hostdevs: [granted, alsoGranted, stolen] } }, { chain: 'yes', drop: 'yes' }), claimed),
      chain,
    ],
    [
      'when it names the preset for an item that the preset does not state',
      claiming(vm({ devices: { hostdevs: [granted, stolen] } }), {
        by: [['', 'usb', 'r']],
        at: { spec: { domain: { devices: { hostdevs: { 0: device(0), 1: device(0) } } } } },
      }),
      [usbPreset],
    ],
  ])('%s', (_, machine, presets) => {
    const fields = refused(machine, presets)
    expect(fields).toEqual(expect.arrayContaining([expect.stringMatching(/hostdevs\[\d\]\.source\.vendor\.id/)]))
    expect(ungrantedReach(machine, options(presets)).length).toBeGreaterThan(0)
  })

  const disks: Domain['devices'] = {
    disks: [
      { type: 'file', source: { file: '/data/a' }, target: { dev: 'vda' } },
      { type: 'block', source: { dev: '/dev/sda' }, target: { dev: 'vdb' } },
    ],
  }
  const fileGrant = cluster('file', {
    domain: { devices: { disks: [{ type: 'file', source: { file: '/data/a' }, target: { dev: 'vda' } }] } },
  })
  test('when an item that was granted makes room for one that was not', () => {
    const remove = namespaced('drop', {
      selector: { matchLabels: { drop: 'yes' } },
      strength: 'Enforce',
      remove: ['domain.devices.disks[target.dev=vda]'],
    })
    const forged = claiming(vm({ devices: disks }, { drop: 'yes' }), {
      by: [['', 'file', 'r'], '=uuid'],
      at: { metadata: { labels: { drop: 1 } }, spec: { domain: { devices: { disks: { 0: 0 } } } } },
    })
    expect(refused(forged, [remove, fileGrant])).toContain('devices.disks[0].source.dev')
  })

  test('that an excluded VM is not one: by its label', () => {
    const grant = cluster('usb', {
      selector: { matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['public'] }] },
      domain: { devices: { hostdevs: [granted] } },
    })
    const forged = claiming(vm({ devices: { hostdevs: [granted] } }, { tier: 'public' }), {
      by: [['', 'usb', 'r'], '=uuid'],
      at: { metadata: { labels: { tier: 1 } }, spec: { domain: { devices: { hostdevs: 0 } } } },
    })
    expect(refused(forged, [grant])).toEqual(usbFields(0))
  })

  test('that an excluded VM is not one: by a condition', () => {
    const grant = cluster('usb', {
      matchConditions: [
        {
          name: 'no-interfaces',
          expression: '!has(object.spec.domain.devices) || !has(object.spec.domain.devices.interfaces)',
        },
      ],
      domain: { devices: { hostdevs: [granted] } },
    })
    const forged = claiming(vm({ devices: { hostdevs: [granted], interfaces: [{ type: 'user' }] } }), {
      by: [['', 'usb', 'r'], '=uuid'],
      at: { spec: { domain: { devices: { interfaces: 1, hostdevs: 0 } } } },
    })
    expect(refused(forged, [grant])).toEqual(usbFields(0))
  })

  test('that an id of a switch was derived', () => {
    const type = 'openvswitch'
    const lan = {
      type: 'bridge',
      alias: { name: 'ua-lan' },
      source: { bridge: 'br0' },
      virtualport: { type },
    } as const
    const grant = cluster('ovs', { domain: { devices: { interfaces: [lan] } } })
    const interfaceid = '11111111-2222-4333-8444-555555555555'
    const stolenPort = vm({ devices: { interfaces: [{ ...lan, virtualport: { type, parameters: { interfaceid } } }] } })
    const parameters = { virtualport: { parameters: 0 } }
    const forged = (rule: string) =>
      claiming(stolenPort, { by: [rule], at: { spec: { domain: { devices: { interfaces: { 0: parameters } } } } } })
    for (const rule of ['=virtualport-id', '=uuid', '=interface-mac', '=emulator'])
      expect(refused(forged(rule), [grant])).toEqual(['devices.interfaces[0].virtualport.parameters.interfaceid'])
  })
})

describe('what namespaced presets add is no more trusted than what users write', () => {
  const grant = (spec: Partial<PresetSpec>) => cluster('usb', { domain: { devices: { hostdevs: [granted] } }, ...spec })
  const noInterfaces = {
    name: 'no-interfaces',
    expression: '!has(object.spec.domain.devices) || !has(object.spec.domain.devices.interfaces)',
  }
  test.each<[string, Preset, Preset]>([
    [
      'a label that the grant excludes',
      grant({ selector: { matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['public'] }] } }),
      namespaced('public', { metadata: { labels: { tier: 'public' } } }),
    ],
    [
      'a device that the grant excludes',
      grant({ matchConditions: [noInterfaces] }),
      namespaced('net', { domain: { devices: { interfaces: [{ type: 'user' }] } } }),
    ],
  ])('%s', (_, grants, adds) => {
    expect(refused(vm({}), [grants])).toEqual([])
    expect(refused(vm({}), [grants, adds])).toEqual(usbFields(0))
  })

  test('what a cluster preset adds is the operator’s own doing', () => {
    const net = cluster('net', { domain: { devices: { interfaces: [{ type: 'user' }] } } })
    const { machine } = completed(vm({}), [grant({ matchConditions: [noInterfaces] }), net])
    expect(machine.spec.domain.devices).toMatchObject({ hostdevs: [granted], interfaces: [{ type: 'user' }] })
  })
})

describe('the presence of an element is a request of its own', () => {
  test.each<[string, Domain, string]>([
    ['a vsock of which all is a default', { devices: { vsock: {} } }, 'devices.vsock'],
    ['a vsock of which part is a default', { devices: { vsock: { model: 'virtio' } } }, 'devices.vsock'],
    ['a security label of which all is a default', { seclabels: [{}] }, 'seclabels[0]'],
  ])('%s', (_, domain, field) => {
    expect(refused(vm(domain), [])).toEqual([field])
    const { machine } = complete(vm(domain), { ...options([]), skipRules: true }) as Completed
    expect(ungrantedReach(machine, options([])).map((cause) => cause.field)).toEqual([`spec.domain.${field}`])
  })

  const vsock = cluster('vsock', { domain: { devices: { vsock: {} } } })
  test.each<[string, VirtualMachine, Preset[]]>([
    ['is granted by a cluster preset that states nothing else', vm({}), [vsock]],
    ['and its user may repeat it', vm({ devices: { vsock: {} } }), [vsock]],
  ])('%s', (_, machine, presets) => {
    expect(completed(machine, presets).machine.spec.domain.devices?.vsock).toMatchObject({ cid: { auto: true } })
  })

  test('is not granted with a value of the user’s', () => {
    expect(refused(vm({ devices: { vsock: { cid: { address: 5 } } } }), [vsock])).toEqual(['devices.vsock'])
  })
})

describe('a VM that is completed again', () => {
  const lan = { type: 'bridge', alias: { name: 'ua-lan' }, source: { bridge: 'br0' } } as const
  const presets = [
    cluster('ovs', {
      domain: { devices: { interfaces: [{ ...lan, virtualport: { type: 'openvswitch' } }] } },
    }),
    cluster('once', {
      matchConditions: [
        {
          name: 'without-hostdevs-and-cpu',
          expression:
            '(!has(object.spec.domain.devices) || !has(object.spec.domain.devices.hostdevs)) && !has(object.spec.domain.cpu)',
        },
      ],
      domain: { devices: { hostdevs: [granted, alsoGranted] } },
    }),
    cluster('console', { strength: 'Enforce', domain: { title: 'theirs' } }),
  ]
  const once = completed(vm({ title: 'mine' }, { app: 'web' }), presets).machine

  test('comes back as it was, though the presets’ conditions no longer hold for what they made of it', () => {
    const again = complete(once, { ...options(presets), entropy: { uid: 'another' } })
    expect(again).toMatchObject({ outcome: 'completed' })
    expect(again.outcome === 'completed' && again.machine).toEqual(once)
  })

  test('is what the controller expects: it refuses none of it', () => {
    expect(ungrantedReach(once, { ...options(presets), entropy: { uid: 'another' } })).toEqual([])
  })

  test('has its port of a switch from its own identity', () => {
    const portOf = ({ machine }: Completed) => machine.spec.domain.devices?.interfaces?.[0]?.virtualport?.parameters
    const mac = { address: '52:54:00:00:00:01' }
    const uuid = '6a1c5e10-52a9-4b52-8f5c-8fb1e0d3f4aa'
    const machine = vm({ uuid, devices: { interfaces: [{ alias: { name: 'ua-lan' }, mac }] } })
    const port = portOf(completed(machine, presets.slice(0, 1)))
    expect(portOf(completed(machine, presets.slice(0, 1)))).toEqual(port)
    const elsewhere = complete(machine, options(presets.slice(0, 1), 'other')) as Completed
    expect(portOf(elsewhere)).not.toEqual(port)
  })

  test('is refused where a preset that granted is gone', () => {
    const fields = refused(once, presets.slice(0, 1))
    expect(fields).toEqual([...usbFields(0), ...usbFields(1)])
  })

  test('loses nothing by a preset that came since', () => {
    const since = cluster('since', { metadata: { labels: { since: 'yes' } } })
    expect(ungrantedReach(once, options([...presets, since]))).toEqual([])
  })

  test('keeps its grants under another name', () => {
    const renamed = { ...once, metadata: { ...once.metadata, name: 'other' } }
    expect(completed(renamed, presets).machine.spec).toEqual(once.spec)
  })
})

describe('a claim of what was overridden', () => {
  const enforced = cluster('enforced', { strength: 'Enforce', domain: { title: 'theirs' } })
  test('is stored only where a preset overrides just that', () => {
    const forged = claiming(vm({ title: 'theirs', description: 'd', onPoweroff: 'destroy' }), {
      by: [['', 'enforced', 'r'], 'user', '=on-poweroff'],
      at: { spec: { domain: { title: 0, onPoweroff: 2 } } },
      over: {
        spec: { domain: { title: [[1, 'mine']], description: [[1, 'other']], onPoweroff: [[1, 'restart'], 0] } },
      },
    })
    const { machine } = completed(forged, [enforced])
    const provenance = decodeProvenance(machine.metadata.annotations?.[completedByAnnotation] ?? '')
    expect([...(provenance?.overridden ?? [])]).toEqual([
      ['spec.domain.title', [{ origin: { by: 'user' }, value: 'mine' }]],
    ])
  })

  test('may be anything', () => {
    for (const value of [5, null, { a: { b: 1 } }, ['x'], true]) {
      const forged = claiming(vm({ title: 'theirs', devices: { disks: [{ target: { dev: 'vda' } }] } }), {
        by: [['', 'enforced', 'r'], 'user'],
        at: { spec: { domain: 0 } },
        over: {
          spec: { domain: { title: [[1, value]], devices: { disks: { 0: { target: { dev: [[1, value]] } } } } } },
        },
      })
      expect(run(forged, [enforced]).outcome).toMatch(/completed|refused/)
    }
  })
})

test('a VM of which a preset removed an item by its index is what the controller expects', () => {
  const lan = cluster('lan', {
    domain: { devices: { interfaces: [{ type: 'bridge', source: { bridge: 'br0' }, alias: { name: 'ua-lan' } }] } },
  })
  const first = namespaced('first', { strength: 'Enforce', remove: ['domain.devices.interfaces[0]'] })
  const { machine } = completed(vm({ devices: { interfaces: [{ type: 'user' }] } }), [lan, first])
  expect(machine.spec.domain.devices?.interfaces).toMatchObject([{ type: 'bridge', source: { bridge: 'br0' } }])
  expect(ungrantedReach(machine, options([lan, first]))).toEqual([])
})

describe('what was stored without the webhooks', () => {
  const evil = vm({ devices: { emulator: '/tmp/evil' } })
  test.each<[string, VirtualMachine, Preset[]]>([
    ['is taken as it stands, though a preset would override it', evil, [emulator('a', 'Enforce', '/usr/bin/qemu')]],
    [
      'is taken as it stands, though a preset would remove it',
      evil,
      [cluster('a', { strength: 'Enforce', remove: ['domain.devices.emulator'] })],
    ],
  ])('%s', (_, machine, presets) => {
    const forged = claiming(machine, { by: [['', 'a', 'r'], '=emulator'], at: { spec: { domain: { devices: 1 } } } })
    for (const one of [machine, forged])
      expect(ungrantedReach(one, options(presets)).map(({ field }) => field)).toEqual(['spec.domain.devices.emulator'])
  })

  function emulator(name: string, strength: 'Enforce' | 'Default', path: string): Preset {
    return cluster(name, { strength, domain: { devices: { emulator: path } } })
  }
})

describe('half of a device', () => {
  const gpu = cluster('gpu', {
    domain: {
      devices: {
        hostdevs: [
          {
            mode: 'subsystem',
            type: 'pci',
            managed: true,
            source: { address: { domain: 0, bus: 5, slot: 2, function: 1 } },
          },
        ],
      },
    },
  })
  test.each([[['slot', 'function']], [['bus', 'slot', 'function']]])(
    'is not made another device by removing %j of its address',
    (parts) => {
      const remove = parts.map((part) => `domain.devices.hostdevs[0].source.address.${part}`)
      expect(refused(vm({}), [gpu, namespaced('cut', { strength: 'Enforce', remove })])).toEqual(
        expect.arrayContaining(parts.map((part) => `devices.hostdevs[0].source.address.${part}`)),
      )
      expect(completed(vm({}), [gpu]).outcome).toBe('completed')
    },
  )

  const mac = { address: '52:54:00:00:00:01' }
  const alias = { name: 'ua-y' }
  const byMac = cluster('by-mac', {
    domain: { devices: { interfaces: [{ mac, type: 'direct', source: { dev: 'eth0', mode: 'bridge' } }] } },
  })
  const byAlias = cluster('by-alias', {
    domain: { devices: { interfaces: [{ alias, type: 'direct', source: { dev: 'eth1', mode: 'passthrough' } }] } },
  })
  test('of two grants is not granted together with the other half', () => {
    const mixed = vm({
      devices: { interfaces: [{ alias, mac, type: 'direct', source: { dev: 'eth0', mode: 'passthrough' } }] },
    })
    expect(refused(mixed, [byMac, byAlias])).toContain('devices.interfaces[0].type')
    expect(completed(vm({}), [byMac, byAlias]).machine.spec.domain.devices?.interfaces?.length).toBe(2)
  })
})

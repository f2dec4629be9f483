import { describe, expect, test } from 'vitest'
import { elementOf, type Element } from '../../api/domain/description.ts'
import { domain, type Domain } from '../../api/domain/domain.ts'
import type { Tap } from '../../api/tap.ts'
import { completedByAnnotation, excludePresetsAnnotation, type VirtualMachine } from '../../api/virtual-machine.ts'
import type { Preset, PresetSpec } from '../../api/preset.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete, ungrantedReach, type Completed } from '../../completion/complete.ts'
import { decodeProvenance } from '../../completion/provenance.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { compilePreset } from '../../presets/compile.ts'

/**
 * Everything that reaches the host in a stored VM is stated by a matching cluster preset or is a default. These are
 * attempts to get more (docs/decisions/reach.md).
 */
type Labels = Readonly<Record<string, string>>

const apiVersion = 'virtset.io/v1alpha1'

const base: Domain = { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } }

const vmWith = (domain: Domain, labels: Labels = {}, annotations: Labels = {}): VirtualMachine => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'team', labels, annotations },
  spec: { domain: { ...base, ...domain } },
})

/** A VM with provenance: the last origin of `by` is the place's. */
const claiming = (vm: VirtualMachine, claim: object): VirtualMachine => ({
  ...vm,
  metadata: {
    ...vm.metadata,
    annotations: { ...vm.metadata.annotations, [completedByAnnotation]: JSON.stringify({ v: 1, ...claim }) },
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

const run = (vm: VirtualMachine, presets: readonly Preset[]) => complete(vm, options(presets))

function completed(vm: VirtualMachine, presets: readonly Preset[]): Completed {
  const outcome = run(vm, presets)
  if (outcome.outcome === 'refused') throw new Error(JSON.stringify(outcome.causes, null, 2))
  return outcome
}

/** The fields that are refused because they reach the host. */
const refused = (vm: VirtualMachine, presets: readonly Preset[]): string[] => {
  const outcome = run(vm, presets)
  return outcome.outcome === 'refused'
    ? outcome.causes
        .filter(({ rule }) => rule.startsWith('host-'))
        .map(({ field }) => field.replace('spec.domain.', ''))
    : []
}

const usb = (vendor: string, product: string) =>
  ({ mode: 'subsystem', type: 'usb', source: { vendor: { id: vendor }, product: { id: product } } }) as const
const granted = usb('0x1050', '0x0407')
const alsoGranted = usb('0x1234', '0xbeef')
const stolen = usb('0xdead', '0x0001')
const usbPreset = cluster('usb', { domain: { devices: { hostdevs: [granted, alsoGranted] } } })

/** Fields of the USB device at an index of the list; completion would set the mode. */
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
      claiming(vmWith({ devices: { hostdevs: [granted, alsoGranted, stolen] } }, { drop: 'yes' }), claimed),
      [drop, usbPreset],
    ],
    [
      'when the preset that moves the items is selected by a label that another one injects',
      claiming(
        vmWith({ devices: { hostdevs: [granted, alsoGranted, stolen] } }, { chain: 'yes', drop: 'yes' }),
        claimed,
      ),
      chain,
    ],
    [
      'when it names the preset for an item that the preset does not state',
      claiming(vmWith({ devices: { hostdevs: [granted, stolen] } }), {
        by: [['', 'usb', 'r']],
        at: { spec: { domain: { devices: { hostdevs: { 0: device(0), 1: device(0) } } } } },
      }),
      [usbPreset],
    ],
  ])('%s', (_, vm, presets) => {
    const fields = refused(vm, presets)
    expect(fields).toEqual(expect.arrayContaining([expect.stringMatching(/hostdevs\[\d\]\.source\.vendor\.id/)]))
    expect(ungrantedReach(vm, options(presets)).length).toBeGreaterThan(0)
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
  test('when an item that is not granted replaces one that is', () => {
    const remove = namespaced('drop', {
      selector: { matchLabels: { drop: 'yes' } },
      strength: 'Enforce',
      remove: ['domain.devices.disks[target.dev=vda]'],
    })
    const forged = claiming(vmWith({ devices: disks }, { drop: 'yes' }), {
      by: [['', 'file', 'r'], '=uuid'],
      at: { metadata: { labels: { drop: 1 } }, spec: { domain: { devices: { disks: { 0: 0 } } } } },
    })
    expect(refused(forged, [remove, fileGrant])).toContain('devices.disks[0].source.dev')
  })

  test('that a VM has a label that a preset excludes', () => {
    const grant = cluster('usb', {
      selector: { matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['public'] }] },
      domain: { devices: { hostdevs: [granted] } },
    })
    const forged = claiming(vmWith({ devices: { hostdevs: [granted] } }, { tier: 'public' }), {
      by: [['', 'usb', 'r'], '=uuid'],
      at: { metadata: { labels: { tier: 1 } }, spec: { domain: { devices: { hostdevs: 0 } } } },
    })
    expect(refused(forged, [grant])).toEqual(usbFields(0))
  })

  test('that a condition holds', () => {
    const grant = cluster('usb', {
      matchConditions: [
        {
          name: 'no-interfaces',
          expression: '!has(object.spec.domain.devices) || !has(object.spec.domain.devices.interfaces)',
        },
      ],
      domain: { devices: { hostdevs: [granted] } },
    })
    const forged = claiming(vmWith({ devices: { hostdevs: [granted], interfaces: [{ type: 'user' }] } }), {
      by: [['', 'usb', 'r'], '=uuid'],
      at: { spec: { domain: { devices: { interfaces: 1, hostdevs: 0 } } } },
    })
    expect(refused(forged, [grant])).toEqual(usbFields(0))
  })

  test('that a MAC address was drawn, which completion would not draw', () => {
    const isOurs = "i, !has(i.mac) || i.mac.address.startsWith('52:54:00:')"
    const lan = cluster('lan', {
      matchConditions: [{ name: 'our-macs', expression: `object.spec.domain.devices.interfaces.all(${isOurs})` }],
      domain: { devices: { interfaces: [{ alias: { name: 'ua-lan' }, type: 'bridge', source: { bridge: 'br0' } }] } },
    })
    const sent = vmWith({
      devices: { interfaces: [{ alias: { name: 'ua-lan' }, mac: { address: '00:11:22:33:44:55' } }] },
    })
    const forged = claiming(sent, {
      by: ['=interface-mac'],
      at: { spec: { domain: { devices: { interfaces: { 0: { mac: 0 } } } } } },
    })
    expect(completed(forged, [lan]).vm.spec.domain.devices?.interfaces).toMatchObject([
      { type: 'user', mac: { address: '00:11:22:33:44:55' } },
    ])
  })

  const variables = (name: string, format: string) => `/var/lib/libvirt/qemu/nvram/${name}_VARS.${format}`
  test.each<[string, VirtualMachine['metadata'], Domain, string[]]>([
    [
      'that a variable store was named after the VM',
      { name: 'vm' },
      { name: 'vm', os: { nvram: { value: variables('other', 'qcow2') } } },
      ['os.nvram.value'],
    ],
    [
      'that one outside of the VM was named after its domain',
      { name: 'vm' },
      { name: 'other', os: { nvram: { value: '/srv/other_VARS.qcow2' } } },
      ['os.nvram.value'],
    ],
    [
      'that one was named after the prefix of a generated name',
      { name: 'gen-x7k2p', generateName: 'gen-' },
      { name: 'gen-x7k2p', os: { nvram: { value: variables('gen-', 'qcow2') } } },
      ['os.nvram.value'],
    ],
    [
      'that the format of a template was chosen, for a domain with the name of another VM',
      { name: 'vm' },
      { name: 'other', os: { nvram: { template: '/srv/vars', templateFormat: 'qcow2' } } },
      ['os.nvram.template', 'os.nvram.templateFormat'],
    ],
  ])('%s', (_, metadata, { name = '', os }, expected) => {
    const efi = { features: { acpi: {} }, os: { ...base.os, firmware: 'efi' as const } }
    const { vm } = completed({ ...vmWith(efi), metadata: { ...metadata, namespace: 'team' } }, [])
    const nvram = { ...vm.spec.domain.os?.nvram, value: variables(name, 'qcow2'), ...os?.nvram }
    const domain = { ...vm.spec.domain, name, os: { ...vm.spec.domain.os, nvram } }
    const forged = { ...vm, spec: { ...vm.spec, domain } }
    expect(refused(forged, [])).toEqual(expect.arrayContaining(expected))
    expect(ungrantedReach(forged, options([])).map(({ field }) => field)).toEqual(
      expect.arrayContaining(expected.map((field) => `spec.domain.${field}`)),
    )
  })

  test('that the id of a switch port was derived', () => {
    const type = 'openvswitch'
    const lan = {
      type: 'bridge',
      alias: { name: 'ua-lan' },
      source: { bridge: 'br0' },
      virtualport: { type },
    } as const
    const grant = cluster('ovs', { domain: { devices: { interfaces: [lan] } } })
    const interfaceid = '11111111-2222-4333-8444-555555555555'
    const stolenPort = vmWith({
      devices: { interfaces: [{ ...lan, virtualport: { type, parameters: { interfaceid } } }] },
    })
    const parameters = { virtualport: { parameters: 0 } }
    const forged = (rule: string) =>
      claiming(stolenPort, { by: [rule], at: { spec: { domain: { devices: { interfaces: { 0: parameters } } } } } })
    for (const rule of ['=virtualport-id', '=uuid', '=interface-mac', '=emulator'])
      expect(refused(forged(rule), [grant])).toEqual(['devices.interfaces[0].virtualport.parameters.interfaceid'])
  })
})

describe('namespaced presets are trusted no more than users', () => {
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
    expect(refused(vmWith({}), [grants])).toEqual([])
    expect(refused(vmWith({}), [grants, adds])).toEqual(usbFields(0))
  })

  test('values that a cluster preset adds are trusted', () => {
    const net = cluster('net', { domain: { devices: { interfaces: [{ type: 'user' }] } } })
    const { vm } = completed(vmWith({}), [grant({ matchConditions: [noInterfaces] }), net])
    expect(vm.spec.domain.devices).toMatchObject({ hostdevs: [granted], interfaces: [{ type: 'user' }] })
  })
})

describe('the presence of an element must be granted', () => {
  test.each<[string, Domain, string]>([
    ['a vsock of which all is a default', { devices: { vsock: {} } }, 'devices.vsock'],
    ['a vsock of which part is a default', { devices: { vsock: { model: 'virtio' } } }, 'devices.vsock'],
    ['a security label of which all is a default', { seclabels: [{}] }, 'seclabels[0]'],
  ])('%s', (_, domain, field) => {
    expect(refused(vmWith(domain), [])).toEqual([field])
    const { vm } = complete(vmWith(domain), { ...options([]), skipRules: true }) as Completed
    expect(ungrantedReach(vm, options([])).map((cause) => cause.field)).toEqual([`spec.domain.${field}`])
  })

  const vsock = cluster('vsock', { domain: { devices: { vsock: {} } } })
  test.each<[string, VirtualMachine, Preset[]]>([
    ['is granted by a cluster preset that states nothing else', vmWith({}), [vsock]],
    ['and its user may repeat it', vmWith({ devices: { vsock: {} } }), [vsock]],
  ])('%s', (_, vm, presets) => {
    expect(completed(vm, presets).vm.spec.domain.devices?.vsock).toMatchObject({ cid: { auto: true } })
  })

  test('is not granted together with a value of the user', () => {
    expect(refused(vmWith({ devices: { vsock: { cid: { address: 5 } } } }), [vsock])).toEqual(['devices.vsock'])
  })
})

describe('a union of which the user chose another branch than the preset enforces', () => {
  const target = { dev: 'vda', bus: 'virtio' } as const
  const block = { type: 'block', device: 'disk', source: { dev: '/dev/sda' }, target } as const
  const enforcing = cluster('block', { strength: 'Enforce', domain: { devices: { disks: [block] } } })
  const host = { name: 'rbd', port: 6789 }
  const lost: Domain['devices'] = {
    disks: [{ type: 'network', device: 'disk', source: { protocol: 'rbd', name: 'pool/a', hosts: [host] }, target }],
  }
  const once = completed(vmWith({ devices: lost }), [enforcing]).vm

  test('is completed again to the same, and started', () => {
    expect(once.spec.domain.devices?.disks?.[0]).toMatchObject(block)
    expect(completed(once, [enforcing]).vm.spec).toEqual(once.spec)
    expect(ungrantedReach(once, options([enforcing]))).toEqual([])
  })

  test.each<[string, readonly Preset[]]>([
    ['deleted', []],
    [
      'a default that the user overrides',
      [cluster('other', { domain: { devices: { disks: [{ ...block, source: { dev: '/dev/sdb' } }] } } })],
    ],
  ])('grants nothing when the preset becomes %s', (_, presets) => {
    expect(refused(once, presets)).toContain('devices.disks[0].source.dev')
    expect(ungrantedReach(once, options(presets)).map(({ field }) => field)).toContain(
      'spec.domain.devices.disks[0].source.dev',
    )
  })
})

describe('an option that the granting preset enforces', () => {
  const shared = { type: 'mount', source: { dir: '/data' }, target: { dir: 'data' } } as const
  const files = { filesystems: [{ ...shared, readonly: {} }] } satisfies Domain['devices']
  const enforcing = cluster('shared', { strength: 'Enforce', domain: { devices: files } })
  const complete = completed(vmWith({}), [enforcing]).vm
  const { [completedByAnnotation]: claim = '' } = complete.metadata.annotations ?? {}

  /** A VM with this filesystem that claims the provenance of a complete one. */
  const storedWith = (filesystem: object, text = claim): VirtualMachine => {
    const { filesystems: _, ...devices } = complete.spec.domain.devices ?? {}
    const domain = { ...complete.spec.domain, devices: { ...devices, filesystems: [filesystem] } } as Domain
    return vmWith(domain, {}, text === '' ? {} : { [completedByAnnotation]: text })
  }
  const ungranted = (vm: VirtualMachine) =>
    ungrantedReach(vm, options([enforcing])).map(({ field }) => field.replace('spec.domain.devices.', ''))

  test.each<[string, string]>([
    ['with the claim of a complete VM', claim],
    ['with an unreadable claim', '{}'],
    ['without a claim', ''],
  ])('cannot be left out of a VM that was stored without the webhooks, %s', (_, text) => {
    const { filesystems: [filesystem = {}] = [] } = complete.spec.domain.devices ?? {}
    const { readonly: _readonly, ...writable } = filesystem as { readonly?: unknown }
    expect(ungranted(storedWith(filesystem, text))).toEqual([])
    expect(ungranted(storedWith(writable, text))).toContain('filesystems[0].source.dir')
  })

  test('is set in every file system with the tag, and the VM is completed again to the same, and started', () => {
    const target = { dir: 'data' }
    const given = { filesystems: [{ target }, { type: 'mount', source: { dir: '/etc' }, target }] } as NonNullable<
      Domain['devices']
    >
    const { vm } = completed(vmWith({ devices: given }), [enforcing])
    const [granted] = files.filesystems
    expect(vm.spec.domain.devices?.filesystems).toMatchObject([granted, granted])
    expect(completed(vm, [enforcing]).vm.spec).toEqual(vm.spec)
    expect(ungranted(vm)).toEqual([])
    expect(refused(vm, [])).toEqual(expect.arrayContaining(['devices.filesystems[1].source.dir']))
    const byDefault = cluster('shared', { domain: { devices: files } })
    expect(refused(vmWith({ devices: given }), [byDefault])).toContain('devices.filesystems[1].source.dir')
  })
})

describe('a VM that is exempt from a preset', () => {
  const shared = { type: 'mount', source: { dir: '/data' }, target: { dir: 'data' } } as const
  const grant = cluster('shared', { domain: { devices: { filesystems: [shared] } } })
  const enforcing = (domain: Domain) => cluster('rules', { strength: 'Enforce', domain })
  const readonly = enforcing({ devices: { filesystems: [{ target: { dir: '*' }, readonly: {} }] } })
  const completeExempt = (domain: Domain, presets: readonly Preset[]) =>
    complete(vmWith(domain, {}, { [excludePresetsAnnotation]: 'rules' }), {
      ...options(presets),
      exempt: new Set(['rules']),
    })

  test('is refused if the preset changes a granted device, because the controller would not start it', () => {
    const outcome = completeExempt({}, [grant, readonly])
    expect(outcome.outcome === 'refused' && outcome.causes.map(({ rule, message }) => [rule, message])).toContainEqual([
      'host-reach',
      'reaches the host, and is not granted to a VM that is exempt from a preset which changes its device',
    ])
  })

  test.each<[string, Domain, readonly Preset[]]>([
    [
      'changes another device',
      {},
      [grant, enforcing({ devices: { watchdogs: [{ model: 'i6300esb', action: 'reset' }] } })],
    ],
    [
      'changes a device that needs no grant',
      { devices: { watchdogs: [{ model: 'i6300esb', action: 'reset' }] } },
      [enforcing({ devices: { watchdogs: [{ model: 'i6300esb', action: 'poweroff' }] } })],
    ],
  ])('is not if the preset %s, and starts', (_, domain, presets) => {
    const outcome = completeExempt(domain, presets)
    expect(outcome.outcome).toBe('completed')
    expect(outcome.outcome === 'completed' && ungrantedReach(outcome.vm, options(presets))).toEqual([])
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
  const once = completed(vmWith({ title: 'mine' }, { app: 'web' }), presets).vm

  test('is unchanged, although the conditions of its presets do not hold for the completed VM', () => {
    const again = complete(once, { ...options(presets), entropy: { uid: 'another' } })
    expect(again).toMatchObject({ outcome: 'completed' })
    expect(again.outcome === 'completed' && again.vm).toEqual(once)
  })

  test('is accepted by the controller', () => {
    expect(ungrantedReach(once, { ...options(presets), entropy: { uid: 'another' } })).toEqual([])
  })

  test('has the id of its switch port derived from its own identity', () => {
    const portOf = ({ vm }: Completed) => vm.spec.domain.devices?.interfaces?.[0]?.virtualport?.parameters
    const mac = { address: '52:54:00:00:00:01' }
    const uuid = '6a1c5e10-52a9-4b52-8f5c-8fb1e0d3f4aa'
    const vm = vmWith({ uuid, devices: { interfaces: [{ alias: { name: 'ua-lan' }, mac }] } })
    const port = portOf(completed(vm, presets.slice(0, 1)))
    expect(portOf(completed(vm, presets.slice(0, 1)))).toEqual(port)
    const elsewhere = complete(vm, options(presets.slice(0, 1), 'other')) as Completed
    expect(portOf(elsewhere)).not.toEqual(port)
  })

  test('is refused if the granting preset was deleted', () => {
    const fields = refused(once, presets.slice(0, 1))
    expect(fields).toEqual([...usbFields(0), ...usbFields(1)])
  })

  test('loses nothing when a preset is added later', () => {
    const since = cluster('since', { metadata: { labels: { since: 'yes' } } })
    expect(ungrantedReach(once, options([...presets, since]))).toEqual([])
  })

  test('keeps its grants under another name', () => {
    const renamed = { ...once, metadata: { ...once.metadata, name: 'other' } }
    expect(completed(renamed, presets).vm.spec).toEqual(once.spec)
  })
})

describe('a claim about overridden values', () => {
  const enforced = cluster('enforced', { strength: 'Enforce', domain: { title: 'theirs' } })
  test('is stored only if a preset overrides exactly that', () => {
    const forged = claiming(vmWith({ title: 'theirs', description: 'd', onPoweroff: 'destroy' }), {
      by: [['', 'enforced', 'r'], 'user', '=on-poweroff'],
      at: { spec: { domain: { title: 0, onPoweroff: 2 } } },
      over: {
        spec: { domain: { title: [[1, 'mine']], description: [[1, 'other']], onPoweroff: [[1, 'restart'], 0] } },
      },
    })
    const { vm } = completed(forged, [enforced])
    const provenance = decodeProvenance(vm.metadata.annotations?.[completedByAnnotation] ?? '')
    expect([...(provenance?.overridden ?? [])]).toEqual([
      ['spec.domain.title', [{ origin: { by: 'user' }, value: 'mine' }]],
    ])
  })

  test('can contain anything', () => {
    for (const value of [5, null, { a: { b: 1 } }, ['x'], true]) {
      const forged = claiming(vmWith({ title: 'theirs', devices: { disks: [{ target: { dev: 'vda' } }] } }), {
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

describe('a device of a namespaced preset excludes a grant although another one removes an item by its index', () => {
  const bridge = { alias: { name: 'ua-own' }, type: 'user' } as const
  const other = { alias: { name: 'ua-other' }, type: 'user', model: { type: 'e1000' } } as const
  const removing = (...indexes: readonly number[]) =>
    namespaced('drop', {
      strength: 'Enforce',
      priority: 1,
      remove: indexes.map((index) => `domain.devices.interfaces[${index}]`),
    })
  const adding = namespaced('add', { strength: 'Enforce', domain: { devices: { interfaces: [bridge, other] } } })
  const grant = (expression: string) =>
    cluster('usb', {
      strength: 'Enforce',
      matchConditions: [{ name: 'c', expression }],
      domain: { devices: { hostdevs: [granted], interfaces: [{ type: 'user', alias: { name: 'ua-grant' } }] } },
    })
  const interfaces = 'object.spec.domain.?devices.interfaces.orValue([])'

  test.each([
    // The grant's own interface has the index 0 and remains, so only one of the other two is removed.
    ['one that is not allowed', `size(${interfaces}) == 0`, [0, 1]],
    ['one of two', `size(${interfaces}) != 1`, [0, 1]],
    ['one that the other needs', `${interfaces}.all(i, !has(i.model)) || size(${interfaces}) == 2`, [0, 1]],
  ])('%s', (_, expression, indexes) => {
    expect(refused(vmWith({}), [grant(expression)])).toEqual([])
    expect(refused(vmWith({}), [grant(expression), adding, removing(...indexes)])).toEqual(usbFields(0))
  })
})

test('a preset of the namespace can remove what has nothing to do with the firmware of the node', () => {
  const efi = { title: 'a', features: { acpi: {} }, os: { ...base.os, firmware: 'efi' } } as const
  const title = namespaced('title', { strength: 'Enforce', remove: ['domain.title'] })
  expect(refused(vmWith(efi), [title])).toEqual([])
})

test('the controller accepts a VM from which a preset removed an item by its index', () => {
  const lan = cluster('lan', {
    domain: { devices: { interfaces: [{ type: 'bridge', source: { bridge: 'br0' }, alias: { name: 'ua-lan' } }] } },
  })
  const first = namespaced('first', { strength: 'Enforce', remove: ['domain.devices.interfaces[0]'] })
  const { vm } = completed(vmWith({ devices: { interfaces: [{ type: 'user' }] } }), [lan, first])
  expect(vm.spec.domain.devices?.interfaces).toMatchObject([{ type: 'bridge', source: { bridge: 'br0' } }])
  expect(ungrantedReach(vm, options([lan, first]))).toEqual([])
})

describe('a VM that was stored without the webhooks', () => {
  const evil = vmWith({ devices: { emulator: '/tmp/evil' } })
  test.each<[string, VirtualMachine, Preset[]]>([
    ['is checked as stored, though a preset would override it', evil, [emulator('a', 'Enforce', '/usr/bin/qemu')]],
    [
      'is checked as stored, though a preset would remove it',
      evil,
      [cluster('a', { strength: 'Enforce', remove: ['domain.devices.emulator'] })],
    ],
  ])('%s', (_, vm, presets) => {
    const forged = claiming(vm, { by: [['', 'a', 'r'], '=emulator'], at: { spec: { domain: { devices: 1 } } } })
    for (const one of [vm, forged])
      expect(ungrantedReach(one, options(presets)).map(({ field }) => field)).toEqual(['spec.domain.devices.emulator'])
  })

  const sliced = (size: number): Domain => ({
    devices: {
      disks: [
        {
          type: 'block',
          source: { dev: '/dev/sdb', slices: { slice: { type: 'storage', offset: 0, size } } },
          target: { dev: 'vdb', bus: 'virtio' },
        },
      ],
    },
  })
  const all: Domain = {
    devices: { disks: [{ type: 'block', source: { dev: '/dev/sdb' }, target: { dev: 'vdb', bus: 'virtio' } }] },
  }
  const lan = { alias: { name: 'ua-net' }, type: 'bridge', source: { bridge: 'br0' } } as const
  const interfaces = [lan]
  const tagged = [{ ...lan, vlan: { tags: [{ id: 42 }] } }]
  const withTap = (network?: string): VirtualMachine => {
    const vm = vmWith({ devices: { interfaces: [{}] } })
    const taps = [{ dev: 'tap1', plugin: 'macvtap', ...(network === undefined ? {} : { network }) }]
    return { ...vm, spec: { ...vm.spec, taps } }
  }
  test.each<[string, VirtualMachine, readonly Partial<PresetSpec>[], string, string]>([
    [
      'a block device without its slices',
      vmWith(all),
      [{ domain: sliced(4096) }],
      'domain.devices.disks[0].source.dev',
      'domain.devices.disks[0].source.slices.slice.type',
    ],
    [
      'a part of a block device on whose size presets disagree',
      vmWith(JSON.parse(JSON.stringify(sliced(4096)).replace(',"size":4096', ''))),
      [{ domain: sliced(4096) }, { domain: sliced(8192) }],
      'domain.devices.disks[0].source.dev',
      'domain.devices.disks[0].source.slices.slice.size',
    ],
    [
      'a bridge without its VLAN',
      vmWith({ devices: { interfaces } }),
      [{ domain: { devices: { interfaces: tagged } } }],
      'domain.devices.interfaces[0].source.bridge',
      'domain.devices.interfaces[0].vlan.tags[0].id',
    ],
    ['a tap without its network', withTap(), [{ taps: withTap('lab').spec.taps ?? [] }], 'taps[0]', 'taps[0].network'],
    [
      'sockets without their address',
      vmWith({ devices: { vsock: { model: 'virtio' } } }),
      [{ domain: { devices: { vsock: { model: 'virtio', cid: { address: 5 } } } } }],
      'domain.devices.vsock',
      'domain.devices.vsock.cid.address',
    ],
  ])('has nothing of what a preset grants only with more: %s', (_, vm, specs, field, missing) => {
    const presets = specs.map((spec, index) => cluster(`p${index}`, spec))
    expect(ungrantedReach(vm, options(presets)).find((cause) => cause.field === `spec.${field}`)?.message).toMatch(
      `grants it only with spec.${missing}, which is missing`,
    )
    const [first = {}] = specs
    const { vm: stored } = completed(vmWith({ devices: { interfaces: [{}] } }), [cluster('p', first)])
    expect(ungrantedReach(stored, options([cluster('p', first)]))).toEqual([])
  })

  test('has nothing of a preset that was narrowed since', () => {
    const { vm } = completed(vmWith({}), [cluster('p', { domain: all })])
    expect(ungrantedReach(vm, options([cluster('p', { domain: all })]))).toEqual([])
    const labelled = cluster('q', { metadata: { labels: { a: 'b' } }, domain: { title: 'q' } })
    expect(ungrantedReach(vm, options([cluster('p', { domain: all }), labelled]))).toEqual([])
    expect(ungrantedReach(vm, options([cluster('p', { domain: sliced(4096) })])).map(({ field }) => field)).toContain(
      'spec.domain.devices.disks[0].source.dev',
    )
  })

  test('has no device of halves that two presets grant', () => {
    const [small, large] = [
      cluster('small', { domain: sliced(4096) }),
      cluster('large', { priority: 1, domain: sliced(8192) }),
    ]
    const other = cluster('other', JSON.parse(JSON.stringify(large.spec).replace('sdb', 'sdc')))
    const vm = vmWith(sliced(8192))
    // Either grants its device as a whole.
    expect(ungrantedReach(vm, options([small, large]))).toEqual([])
    expect(ungrantedReach(vm, options([small, other])).map(({ field }) => field)).toContain(
      'spec.domain.devices.disks[0].source.dev',
    )
  })

  test('has no granted device under the name of another, though that stands at its index after a removal', () => {
    const named = (name: string) => ({ ...granted, alias: { name } })
    const presets = [
      cluster('usb', { domain: { devices: { hostdevs: [named('ua-a')] } } }),
      namespaced('first', { strength: 'Enforce', remove: ['domain.devices.hostdevs[0]'] }),
    ]
    const fieldsOf = (vm: VirtualMachine) => ungrantedReach(vm, options(presets)).map(({ field }) => field)
    expect(fieldsOf(vmWith({ devices: { hostdevs: [named('ua-b')] } }))).toEqual(
      usbFields(0).map((field) => `spec.domain.${field}`),
    )
    expect(fieldsOf(vmWith({ devices: { hostdevs: [named('ua-a')] } }))).toEqual([])
  })

  function emulator(name: string, strength: 'Enforce' | 'Default', path: string): Preset {
    return cluster(name, { strength, domain: { devices: { emulator: path } } })
  }
})

describe('a list whose order matters is granted as one value', () => {
  const args = (...values: string[]): Domain => ({ qemuCommandline: { args: values.map((value) => ({ value })) } })
  const log = cluster('log', { domain: args('-D', '/var/log/q', '-readconfig', '/etc/q') })
  const trace = cluster('trace', { domain: args('-trace', '/etc/t') })

  test('in the order of its preset', () => {
    expect(completed(vmWith({}), [log]).vm.spec.domain.qemuCommandline).toEqual(log.spec.domain?.qemuCommandline)
  })
  test('to a user who writes the same', () => {
    expect(refused(vmWith({ ...log.spec.domain }), [log])).toEqual([])
  })
  test.each<[string, string[], Preset[]]>([
    ['in another order', ['-D', '/etc/q', '-readconfig', '/var/log/q'], [log]],
    ['in part', ['-readconfig', '/var/log/q'], [log]],
    ['with a part repeated', ['-D', '/var/log/q', '-readconfig', '/etc/q', '-D', '/etc/q'], [log]],
    [
      'mixed with that of another preset',
      ['-trace', '/etc/q'],
      [log, cluster('trace', { ...trace.spec, priority: 1 })],
    ],
  ])('not %s', (_, values, presets) => {
    expect(refused(vmWith(args(...values)), presets)).toEqual(['qemuCommandline'])
  })
  test('of two presets of one priority is a conflict', () => {
    const outcome = run(vmWith({}), [log, trace])
    expect(outcome.outcome === 'refused' && outcome.causes.map(({ rule, field }) => [rule, field])).toEqual([
      ['preset-conflict', 'spec.domain.qemuCommandline.args'],
    ])
  })
})

describe('half of a device', () => {
  const function1 = {
    mode: 'subsystem',
    type: 'pci',
    managed: true,
    source: { address: { domain: 0, bus: 5, slot: 2, function: 1 } },
  } as const
  const gpu = cluster('gpu', { domain: { devices: { hostdevs: [function1] } } })
  test.each([[['slot', 'function']], [['bus', 'slot', 'function']]])(
    'is not made another device by removing %j of its address',
    (parts) => {
      const remove = parts.map((part) => `domain.devices.hostdevs[0].source.address.${part}`)
      expect(refused(vmWith({}), [gpu, namespaced('cut', { strength: 'Enforce', remove })])).toEqual(
        expect.arrayContaining(parts.map((part) => `devices.hostdevs[0].source.address.${part}`)),
      )
      expect(completed(vmWith({}), [gpu]).outcome).toBe('completed')
    },
  )
  test('is not made another device by a cluster preset that removes a part of its address', () => {
    const remove = ['domain.devices.hostdevs[0].source.address.function']
    expect(refused(vmWith({}), [gpu, cluster('cut', { strength: 'Enforce', remove })])).toEqual([
      'devices.hostdevs[0].source.address.function',
    ])
  })

  test.each<[string, Domain['devices'], Domain['devices'], string]>([
    [
      'another function of its card',
      { hostdevs: [{ ...function1, alias: { name: 'ua-gpu' } }] },
      { hostdevs: [{ alias: { name: 'ua-gpu' }, type: 'pci', source: { address: { function: 0 } } }] },
      'devices.hostdevs[0].source.address.function',
    ],
    [
      'another slot',
      { hostdevs: [{ ...function1, alias: { name: 'ua-gpu' } }] },
      { hostdevs: [{ alias: { name: 'ua-gpu' }, type: 'pci', source: { address: { slot: '0x00' } } }] },
      'devices.hostdevs[0].source.address.slot',
    ],
    [
      'a socket to which QEMU connects, in place of one that it makes',
      { serials: [{ type: 'unix', source: { mode: 'bind', path: '/run/s.sock' }, target: { port: 0 } }] },
      { serials: [{ type: 'unix', source: { mode: 'connect' }, target: { port: 0 } }] },
      'devices.serials[0].source.mode',
    ],
    [
      'a device that is managed',
      { hostdevs: [{ ...function1, alias: { name: 'ua-gpu' } }] },
      { hostdevs: [{ alias: { name: 'ua-gpu' }, type: 'pci', managed: false }] },
      'devices.hostdevs[0].managed',
    ],
  ])('is not made another device by a default in place of what its preset states: %s', (_, stated, sent, field) => {
    const presets = [cluster('half', { domain: { devices: stated } as Domain })]
    expect(refused(vmWith({ devices: sent } as Domain), presets)).toEqual([field])
    // As it would be stored without the webhooks.
    const { vm } = complete(vmWith({ devices: sent } as Domain), { ...options(presets), skipRules: true }) as Completed
    expect(ungrantedReach(vm, options(presets)).map((cause) => cause.field)).toContain(`spec.domain.${field}`)
    expect(ungrantedReach(completed(vmWith({}), presets).vm, options(presets))).toEqual([])
  })

  test('is not the default emulator, which a user may repeat though a preset states another', () => {
    const { emulator } = capabilities
    const preset = cluster('emulator', { domain: { devices: { emulator: '/usr/local/bin/qemu' } } })
    const { vm } = completed(vmWith({ devices: { emulator } }), [preset])
    expect(ungrantedReach(vm, options([preset]))).toEqual([])
    expect(refused(completed(vmWith({}), []).vm, [preset])).toEqual([])
  })

  const lab = { dev: 'tap1', plugin: 'macvtap', network: 'lab' }
  const taps = cluster('taps', { taps: [lab, { ...lab, dev: 'tap2' }] })
  const removing = (...paths: string[]) => namespaced('cut', { strength: 'Enforce', remove: paths })
  const withInterface = vmWith({ devices: { interfaces: [{}] } })
  test('is not a tap in the network of the pod, by removing its network', () => {
    const cut = removing('taps[dev=tap1].network')
    const outcome = run(withInterface, [taps, cut])
    expect(outcome.outcome === 'refused' && outcome.causes.map(({ rule, field }) => [rule, field])).toEqual([
      ['host-reach', 'spec.taps[0]'],
      ['host-reach', 'spec.taps[1]'],
    ])
    const { vm } = completed(withInterface, [taps])
    const { network: _network, ...other } = lab
    const stored = { ...vm, spec: { ...vm.spec, taps: [other] } }
    expect(ungrantedReach(stored, options([taps, cut])).map(({ field }) => field)).toContain('spec.taps[0]')
  })
  test.each([[['taps[dev=tap1]', 'taps[dev=tap2].network']], [['taps[dev=tap2].network', 'taps[dev=tap1]']]])(
    'is not one that takes the place of a tap that is removed: %j',
    (paths) => {
      const outcome = run(withInterface, [taps, removing(...paths)])
      expect(outcome.outcome === 'refused' && outcome.causes.map(({ field }) => field)).toEqual(['spec.taps[0]'])
    },
  )
  test('is not what remains if a whole tap is removed', () => {
    expect(completed(withInterface, [taps, removing('taps[dev=tap2]')]).vm.spec.taps).toEqual([lab])
  })

  const mac = { address: '52:54:00:00:00:01' }
  const alias = { name: 'ua-y' }
  const byMac = cluster('by-mac', {
    domain: { devices: { interfaces: [{ mac, type: 'direct', source: { dev: 'eth0', mode: 'bridge' } }] } },
  })
  const byAlias = cluster('by-alias', {
    domain: { devices: { interfaces: [{ alias, type: 'direct', source: { dev: 'eth1', mode: 'passthrough' } }] } },
  })
  test('of two grants is not granted together with the other half', () => {
    const mixed = vmWith({
      devices: { interfaces: [{ alias, mac, type: 'direct', source: { dev: 'eth0', mode: 'passthrough' } }] },
    })
    expect(refused(mixed, [byMac, byAlias])).toContain('devices.interfaces[0].type')
    expect(completed(vmWith({}), [byMac, byAlias]).vm.spec.domain.devices?.interfaces?.length).toBe(2)
  })
})

describe('the format of a granted image', () => {
  const block = { target: { dev: 'vdb' }, type: 'block', source: { dev: '/dev/sdx' } } as const
  const grant = (type?: 'qcow2') =>
    cluster('image', { domain: { devices: { disks: [type === undefined ? block : { ...block, driver: { type } }] } } })
  const opened = (type: 'raw' | 'qcow2') => ({ devices: { disks: [{ target: { dev: 'vdb' }, driver: { type } }] } })
  const format = 'devices.disks[0].driver.type'

  test('is raw by default', () => {
    expect(completed(vmWith({}), [grant()]).vm.spec.domain.devices?.disks?.[0]?.driver).toEqual({
      name: 'qemu',
      type: 'raw',
    })
  })

  test.each<[string, VirtualMachine, readonly Preset[], readonly string[]]>([
    ['a user repeats the default', vmWith(opened('raw')), [grant()], []],
    ['a user states another one', vmWith(opened('qcow2')), [grant()], [format]],
    ['a user states the granted one', vmWith(opened('qcow2')), [grant('qcow2')], []],
    [
      'a preset of the namespace states another one',
      vmWith({}),
      [grant(), namespaced('format', { strength: 'Enforce', domain: opened('qcow2') })],
      [format],
    ],
    [
      'another preset of the cluster states it',
      vmWith({}),
      [grant(), cluster('format', { domain: opened('qcow2') })],
      [],
    ],
  ])('%s', (_, vm, presets, fields) => {
    expect(refused(vm, presets)).toEqual(fields)
    if (fields.length > 0) return
    expect(ungrantedReach(completed(vm, presets).vm, options(presets))).toEqual([])
  })

  const firmware = (os: NonNullable<Domain['os']>): Domain => ({ os: { ...base.os, ...os } })
  const code = { type: 'pflash', readonly: true, value: '/srv/code.fd' } as const
  test.each<[string, NonNullable<Domain['os']>, NonNullable<Domain['os']>, readonly string[]]>([
    ['a firmware', { loader: code }, { loader: { format: 'qcow2' } }, ['os.loader.format']],
    ['a granted firmware', { loader: { ...code, format: 'qcow2' } }, { loader: { format: 'qcow2' } }, []],
    [
      'the template of a store',
      { nvram: { template: '/srv/vars.fd' } },
      { firmware: 'efi', nvram: { templateFormat: 'qcow2' } },
      ['os.nvram.templateFormat'],
    ],
    [
      'a store',
      { nvram: { value: '/srv/vars.fd' } },
      { firmware: 'efi', nvram: { format: 'qcow2' } },
      ['os.nvram.format'],
    ],
    [
      'a store, by the default that follows the template',
      { nvram: { value: '/srv/vars.fd' } },
      { firmware: 'efi', nvram: { templateFormat: 'qcow2' } },
      ['os.nvram.format'],
    ],
    [
      'a store on a device',
      { nvram: { type: 'block', source: { dev: '/dev/sdx' } } },
      { firmware: 'efi', nvram: { format: 'qcow2' } },
      ['os.nvram.format'],
    ],
    ['the firmware of the node', {}, { firmware: 'efi', loader: { format: 'qcow2' } }, []],
  ])('%s is opened in a format that a preset of the cluster states', (_, granted, sent, fields) => {
    expect(refused(vmWith(firmware(sent)), [cluster('firmware', { domain: { os: granted } })])).toEqual(fields)
  })

  test('covers every image of a domain', () => {
    const paths: string[] = []
    const collect = (element: Element, path: string, above: readonly Element[]): void => {
      for (const [key, field] of Object.entries(element.fields)) {
        const isFormat =
          'scalar' in field && field.scalar.kind === 'enumeration' && field.scalar.values.includes('qcow2')
        if (isFormat) paths.push(`${path}${key}`)
        if (field.at !== 'child' && field.at !== 'children') continue
        const below = elementOf(field)
        if (!above.includes(below)) collect(below, `${path}${key}.`, [...above, element])
      }
    }
    collect(domain, '', [])
    const ofRunningVm = paths.filter((path) => path.startsWith('devices.disks.mirror.'))
    const readByLxcOnly = ['devices.filesystems.driver.format']
    expect(paths.filter((path) => ![...ofRunningVm, ...readByLxcOnly].includes(path))).toEqual([
      'os.loader.format',
      'os.nvram.templateFormat',
      'os.nvram.format',
      'os.nvram.source.dataStore.format.type',
      'devices.disks.driver.type',
      'devices.disks.source.dataStore.format.type',
      'devices.disks.backingStore.format.type',
      'devices.disks.backingStore.source.dataStore.format.type',
      'devices.disks.backingStore.backingStore.format.type',
      'devices.disks.backingStore.backingStore.source.dataStore.format.type',
    ])
  })

  test('is checked again before a stored VM starts', () => {
    const { vm } = completed(vmWith({}), [grant()])
    const edited: VirtualMachine = JSON.parse(JSON.stringify(vm).replace('"type":"raw"', '"type":"qcow2"'))
    expect(ungrantedReach(edited, options([grant()])).map(({ field }) => field)).toEqual([`spec.domain.${format}`])
  })
})

describe('a device that the node allocates', () => {
  const gpu = { name: 'gpu', resourceName: 'example.com/gpu' }
  const hostdev = { alias: { name: 'ua-gpu' }, type: 'pci' } as const
  const hostdevs = [hostdev]
  const granting = cluster('gpu', {
    selector: { matchLabels: { gpu: 'yes' } },
    hostDevices: [gpu],
    domain: { devices: { hostdevs } },
  })
  const labels = { gpu: 'yes' }
  const withDevices = (vm: VirtualMachine, ...hostDevices: (typeof gpu)[]): VirtualMachine => ({
    ...vm,
    spec: { ...vm.spec, hostDevices },
  })
  const fieldsOf = (vm: VirtualMachine, presets: readonly Preset[]): string[] => {
    const outcome = run(vm, presets)
    return outcome.outcome === 'refused' ? outcome.causes.map(({ rule, field }) => `${rule} ${field}`) : []
  }

  test('is granted by the preset that states it, also to a user who repeats it, and is granted again', () => {
    const { vm } = completed(withDevices(vmWith({ devices: { hostdevs } }, labels), gpu), [granting])
    expect(vm.spec.hostDevices).toEqual([gpu])
    expect(completed(vm, [granting]).vm.spec).toEqual(vm.spec)
    expect(ungrantedReach(vm, options([granting]))).toEqual([])
  })

  test('may be of a claim, which its preset grants as a whole', () => {
    const claim = { name: 'gpus', resourceClaimTemplateName: 'large' }
    const claimed = { name: 'gpu', claim: { name: 'gpus', request: 'gpu' } }
    const preset = cluster('gpu', { ...granting.spec, hostDevices: [claimed], resourceClaims: [claim] })
    const withClaim = (resourceClaimTemplateName: string): VirtualMachine => {
      const vm = vmWith({}, labels)
      return { ...vm, spec: { ...vm.spec, resourceClaims: [{ ...claim, resourceClaimTemplateName }] } }
    }
    const { vm } = completed(withClaim('large'), [preset])
    expect([vm.spec.hostDevices, vm.spec.resourceClaims]).toEqual([[claimed], [claim]])
    expect(ungrantedReach(vm, options([preset]))).toEqual([])
    expect(fieldsOf(withClaim('small'), [preset])).toEqual(['host-reach spec.resourceClaims[0]'])
    expect(fieldsOf(withClaim('large'), [])).toEqual(['host-reach spec.resourceClaims[0]'])
  })

  test.each<[string, VirtualMachine, readonly Preset[], string]>([
    ['without a preset', withDevices(vmWith({}, labels), gpu), [], 'spec.hostDevices[0]'],
    ['beside a granted one', withDevices(vmWith({}, labels), { ...gpu, name: 'b' }), [granting], 'spec.hostDevices[0]'],
    [
      'of another resource',
      withDevices(vmWith({}, labels), { ...gpu, resourceName: 'a.b/c' }),
      [granting],
      'spec.hostDevices[0]',
    ],
    [
      'that a claim attributes to a preset',
      claiming(withDevices(vmWith({}), gpu), { by: [['', 'gpu', 'r']], at: { spec: { hostDevices: { 0: 0 } } } }),
      [granting],
      'spec.hostDevices[0]',
    ],
  ])('is refused %s', (_, vm, presets, field) => {
    expect(fieldsOf(vm, presets)).toContain(`host-reach ${field}`)
  })

  test('is not granted to a stored VM whose preset was deleted', () => {
    const { vm } = completed(vmWith({}, labels), [granting])
    const causes = ungrantedReach(vm, options([]))
    expect(causes.map(({ field }) => field)).toContain('spec.hostDevices[0]')
  })

  test('cannot be injected by a preset of a namespace', () => {
    const { kind, ...rest } = namespaced('gpu', { hostDevices: [gpu] })
    expect(compilePreset({ kind, ...rest })).toMatchObject({
      quarantined: { causes: [{ rule: 'preset-reach', field: 'spec.hostDevices[0]' }] },
    })
  })

  test('needs the address that the node allocates: a VM cannot state another', () => {
    const chosen = [{ ...hostdev, source: { address: { bus: 6, slot: 1 } } }]
    expect(fieldsOf(vmWith({ devices: { hostdevs: chosen } }, labels), [granting])).toEqual([
      'host-reach spec.domain.devices.hostdevs[0].source.address.bus',
      'host-reach spec.domain.devices.hostdevs[0].source.address.slot',
      'host-device-source spec.domain.devices.hostdevs[0].source.address',
    ])
  })
})

describe('what reaches the host is refused in a list of one, too:', () => {
  const volumes = [{ name: 'data', emptyDisk: { capacity: '1Gi' } }]
  const disk = (type: string, source: object) => ({ type, source, target: { dev: 'vda' } })
  test.each<[string, object, readonly string[]]>([
    [
      'the socket of a serial port',
      { serials: [{ type: 'unix', sources: [{ path: '/run/a.sock', mode: 'bind' }] }] },
      ['serials[0].sources[0].path'],
    ],
    [
      'the socket of a source of random numbers',
      { rngs: [{ model: 'virtio', backend: { model: 'egd', type: 'unix', sources: [{ path: '/run/a.sock' }] } }] },
      ['rngs[0].backend.model', 'rngs[0].backend.sources[0].path'],
    ],
    [
      'the socket of a server',
      { disks: [disk('network', { protocol: 'nbd', hosts: [{ transport: 'unix', socket: '/run/a.sock' }] })] },
      ['disks[0].source.hosts[0].transport', 'disks[0].source.hosts[0].socket'],
    ],
    [
      'the label of an image',
      { disks: [disk('volume', { volume: 'data', seclabels: [{ model: 'dac', relabel: false }] })] },
      ['disks[0].source.seclabels[0].model', 'disks[0].source.seclabels[0].relabel'],
    ],
    [
      'the server of a SCSI unit',
      {
        hostdevs: [
          {
            mode: 'subsystem',
            type: 'scsi',
            source: { protocol: 'iscsi', name: 'iqn.2014-08.a:b/1', hosts: [{ name: 'h' }] },
          },
        ],
      },
      ['type', 'source.protocol', 'source.name', 'source.hosts[0].name'].map((field) => `hostdevs[0].${field}`),
    ],
  ])('%s', (_, devices, fields) => {
    const vm = vmWith({ devices } as Domain)
    const sent = { ...vm, spec: { ...vm.spec, ...('disks' in devices ? { volumes } : {}) } }
    expect(refused(sent, [])).toEqual(fields.map((field) => `devices.${field}`))
    const { vm: stored } = complete(sent, { ...options([]), skipRules: true }) as Completed
    expect(ungrantedReach(stored, options([])).map(({ field }) => field)).toEqual(
      expect.arrayContaining(fields.map((field) => `spec.domain.devices.${field}`)),
    )
  })
})

test('a copy that defaults make of a value does not justify the value', () => {
  const vm = vmWith({ devices: { graphics: [{ type: 'vnc', socket: '/run/launcher.sock' }] } })
  expect(refused(vm, [])).toEqual(['devices.graphics[0].socket'])
  const { vm: stored } = complete(vm, { ...options([]), skipRules: true }) as Completed
  expect(ungrantedReach(stored, options([])).map(({ field }) => field)).toContain(
    'spec.domain.devices.graphics[0].socket',
  )
})

describe('a source of which a part reaches the host is one place:', () => {
  const disk = (type: string, source: object) => ({ type, device: 'disk', source, target: { dev: 'vdb' } })
  const diskOf = (type: string, source: object) => ({ devices: { disks: [disk(type, source)] } }) as Domain
  const slice = (offset: number, size: number) => ({
    dev: '/dev/sdb',
    slices: { slice: { type: 'storage', offset, size } },
  })
  const socket = (name: string) => ({ protocol: 'nbd', name, host: { transport: 'unix', socket: '/run/nbd.sock' } })
  const configured = (name: string) => ({ protocol: 'rbd', name, config: { file: '/etc/ceph/a.conf' } })

  test.each<[string, string, object, object, string[]]>([
    [
      'another part of a block device',
      'block',
      slice(1_048_576, 4096),
      slice(0, 8192),
      ['slices.slice.offset', 'slices.slice.size'],
    ],
    [
      'a part of a block device',
      'block',
      { dev: '/dev/sdb' },
      slice(0, 8192),
      ['slices.slice.type', 'slices.slice.offset', 'slices.slice.size'],
    ],
    ['another export of a socket of the node', 'network', socket('mine'), socket('other'), ['name']],
    [
      'another image with a configuration of the node',
      'network',
      configured('pool/mine'),
      configured('pool/other'),
      ['name'],
    ],
  ])('%s is not granted', (_, type, stated, wanted, fields) => {
    const preset = (strength: 'Default' | 'Enforce') => cluster('disk', { strength, domain: diskOf(type, stated) })
    expect(refused(vmWith(diskOf(type, wanted)), [preset('Default')])).toEqual(
      fields.map((field) => `devices.disks[0].source.${field}`),
    )
    // As sent and repeated.
    for (const sent of [vmWith({}), vmWith(diskOf(type, stated))]) {
      expect(refused(completed(sent, [preset('Default')]).vm, [preset('Default')])).toEqual([])
    }
    expect(refused(vmWith(diskOf(type, wanted)), [preset('Enforce')])).toEqual(
      // What it does not state is not set back.
      'slices' in wanted && !('slices' in stated) ? fields.map((field) => `devices.disks[0].source.${field}`) : [],
    )
  })

  test('a preset of the namespace cannot remove a part of it', () => {
    const grant = (strength: 'Default' | 'Enforce') =>
      cluster('disk', { strength, domain: diskOf('block', slice(0, 4096)) })
    const cut = (path: string) => namespaced('cut', { strength: 'Enforce', remove: [`domain.devices.disks${path}`] })
    const sliced = cut('[target.dev=vdb].source.slices')
    expect(refused(vmWith({}), [grant('Default'), sliced])).toContain('devices.disks[0].source.dev')
    expect(refused(vmWith({}), [grant('Default'), cut('[target.dev=vdb]')])).toEqual([])
    expect(completed(vmWith({}), [grant('Enforce'), sliced]).vm.spec).toMatchObject({
      domain: diskOf('block', slice(0, 4096)),
    })
  })

  test('nor does a user choose whether QEMU connects to a socket of the node or takes its place', () => {
    const serial = (source: object) =>
      ({ devices: { serials: [{ type: 'unix', source, target: { port: 0 } }] } }) as Domain
    const preset = cluster('socket', { strength: 'Enforce', domain: serial({ path: '/run/s.sock' }) })
    expect(refused(vmWith({}), [preset])).toEqual([])
    expect(refused(vmWith(serial({ mode: 'bind' })), [preset])).toEqual(['devices.serials[0].source.mode'])
  })

  const ns = (...remove: string[]) => namespaced('cut', { strength: 'Enforce', remove })
  const backing = (source: object): Domain =>
    ({
      devices: {
        disks: [
          {
            type: 'file',
            device: 'disk',
            driver: { type: 'qcow2' },
            source: { file: '/data/a.qcow2' },
            backingStore: { type: 'block', format: { type: 'raw' }, source },
            target: { dev: 'vdb' },
          },
        ],
      },
    }) as Domain

  test('also behind another image, and not by halves of two presets', () => {
    const grant = cluster('backing', { domain: backing(slice(0, 4096)) })
    expect(refused(vmWith({}), [grant])).toEqual([])
    const cut = ns('domain.devices.disks[target.dev=vdb].backingStore.source.slices')
    expect(refused(vmWith({}), [grant, cut])).toContain('devices.disks[0].backingStore.source.dev')

    const small = cluster('small', { domain: diskOf('block', { ...slice(0, 4096), dev: '/dev/sdb' }) })
    const large = cluster('large', { domain: diskOf('block', { ...slice(0, 8192), dev: '/dev/sdc' }) })
    const halves = vmWith(diskOf('block', { ...slice(0, 8192), dev: '/dev/sdb' }))
    expect(refused(halves, [small])).toEqual(['devices.disks[0].source.slices.slice.size'])
    expect(refused(halves, [small, large])).not.toEqual([])
  })

  test('what presets do to other devices of the list, or leave to defaults, does not concern it', () => {
    const own = {
      type: 'volume',
      device: 'disk',
      driver: { cache: 'none' },
      source: { volume: 'data', startupPolicy: 'optional' },
      target: { dev: 'vda' },
    }
    const vm = (source: object) => {
      const made = vmWith({
        devices: { disks: [own, { ...disk('network', source), target: { dev: 'vdb' } }] },
      } as Domain)
      return { ...made, spec: { ...made.spec, volumes: [{ name: 'data', emptyDisk: { capacity: '1Gi' } }] } }
    }
    const remote = {
      protocol: 'ssh',
      name: '/img',
      host: { name: 'store' },
      identity: { username: 'u', keyfile: '/etc/k' },
    }
    const grant = cluster('remote', { domain: diskOf('network', remote) })
    const sent = vm(remote)
    expect(refused(sent, [grant])).toEqual([])
    for (const path of ['[target.dev=vda].source.startupPolicy', '[target.dev=vda].driver.cache']) {
      expect(refused(sent, [grant, ns(`domain.devices.disks${path}`)])).toEqual([])
    }
  })

  test('a label that is granted for a disk of the user does not make it a place', () => {
    const label = { model: 'dac', relabel: false }
    const grant = cluster('label', {
      domain: { devices: { disks: [{ target: { dev: '*' }, source: { seclabels: [label] } }] } } as Domain,
    })
    const made = vmWith(diskOf('volume', { volume: 'data' }))
    const vm = { ...made, spec: { ...made.spec, volumes: [{ name: 'data', emptyDisk: { capacity: '1Gi' } }] } }
    expect(refused(vm, [grant])).toEqual([])
  })

  test('also in no list: the variable store', () => {
    const loader = { readonly: true, type: 'pflash', format: 'raw', value: '/usr/share/edk2/ovmf/OVMF_CODE.fd' }
    const nvram = { type: 'network', format: 'raw', source: socket('mine') }
    const os = { ...base.os, firmware: 'efi', loader, nvram }
    const grant = cluster('store', { domain: { features: { acpi: {} }, os } as Domain })
    expect(refused(vmWith({}), [grant])).toEqual([])
    expect(refused(vmWith({}), [grant, ns('domain.os.nvram.source.name')])).toEqual([
      'os.nvram.source.host.transport',
      'os.nvram.source.host.socket',
    ])
  })

  test('defaults do not complete what was cut below another element that reaches the host', () => {
    const label = { type: 'static', model: 'selinux', relabel: true, label: 'system_u:object_r:svirt_t:s0' } as const
    const grant = cluster('label', { domain: { seclabels: [label] } })
    expect(refused(vmWith({}), [grant])).toEqual([])
    expect(refused(vmWith({}), [grant, ns('domain.seclabels[0].relabel')])).toEqual(['seclabels[0].relabel'])
  })

  test.each([
    ['a user', vmWith(diskOf('block', { startupPolicy: 'optional' })), []],
    [
      'a preset of the namespace',
      vmWith({}),
      [namespaced('option', { domain: diskOf('block', { startupPolicy: 'optional' }) })],
    ],
    [
      'another preset of the cluster',
      vmWith({}),
      [
        cluster('option', {
          domain: {
            devices: { disks: [{ target: { dev: '*' }, source: { startupPolicy: 'optional' } }] },
          } as Domain,
        }),
      ],
    ],
  ])('%s may state what happens while it is missing', (_, vm, presets) => {
    const all = [cluster('disk', { domain: diskOf('block', slice(0, 4096)) }), ...presets]
    const { vm: stored } = completed(vm, all)
    expect(stored.spec.domain.devices?.disks?.[0]?.source).toEqual({ ...slice(0, 4096), startupPolicy: 'optional' })
    expect(ungrantedReach(stored, options(all))).toEqual([])
    expect(refused(stored, all)).toEqual([])
  })

  test('NUMA nodes that are granted for memory of the user do not make it a place', () => {
    const grant = cluster('node', {
      domain: { devices: { memories: [{ alias: { name: '*' }, source: { nodemask: '0' } }] } } as Domain,
    })
    const memory = {
      model: 'dimm',
      source: { pagesize: { unit: 'KiB', value: 2048 } },
      target: { size: { unit: 'MiB', value: 128 }, node: 0 },
    }
    const cells = [{ id: 0, cpus: '0', memory: 65_536, unit: 'KiB' }]
    const maxMemory = { unit: 'MiB', value: 4096, slots: 4 }
    const vm = vmWith({ cpu: { numa: { cells } }, maxMemory, devices: { memories: [memory] } } as Domain)
    expect(refused(vm, [grant])).toEqual([])
  })
})

describe('what decides what is done to a granted file or device is a part of its grant:', () => {
  const iso = { type: 'file', device: 'cdrom', source: { file: '/srv/a.iso' }, target: { dev: 'sda', bus: 'sata' } }
  const block = { type: 'block', source: { dev: '/dev/sdb' }, target: { dev: 'vdb', bus: 'virtio' } }
  const alias = { name: 'ua-x' }
  const target = { size: { unit: 'MiB', value: 128 }, node: 0 }
  const nvdimm = { alias, model: 'nvdimm', access: 'private', source: { path: '/srv/nv' }, target }
  const shared = { type: 'mount', source: { dir: '/data' }, target: { dir: 'data' } }
  const log = { type: 'pty', log: { file: '/srv/log', append: true }, target: { port: 0 } }
  const pstore = { backend: 'acpi-erst', path: '/srv/pstore', size: { unit: 'KiB', value: 64 } }
  const code = { type: 'pflash', readonly: true, value: '/srv/code.fd' }
  const inDevices = (devices: object): Domain => ({ devices }) as Domain
  const inOs = (loader: object): Domain => ({ os: { ...base.os, loader } }) as Domain

  test.each<[string, Domain, Domain, readonly string[]]>([
    [
      'a CD-ROM becomes no disk',
      inDevices({ disks: [iso] }),
      inDevices({ disks: [{ device: 'disk', target: { dev: 'sda' } }] }),
      ['devices.disks[0].device'],
    ],
    [
      'nor a floppy drive',
      inDevices({ disks: [iso] }),
      inDevices({ disks: [{ device: 'floppy', target: { dev: 'sda' } }] }),
      ['devices.disks[0].device'],
    ],
    [
      'no other VM writes at the same time',
      inDevices({ disks: [block] }),
      inDevices({ disks: [{ target: { dev: 'vdb' }, shareable: {} }] }),
      ['devices.disks[0].shareable'],
    ],
    [
      'no file is made beside it',
      inDevices({ disks: [block] }),
      inDevices({ disks: [{ target: { dev: 'vdb' }, transient: {} }] }),
      ['devices.disks[0].transient'],
    ],
    [
      'memory becomes no larger',
      inDevices({ memories: [nvdimm] }),
      inDevices({ memories: [{ alias, target: { size: { unit: 'MiB', value: 256 } } }] }),
      ['devices.memories[0].target.size'],
    ],
    [
      'nor is written to',
      inDevices({ memories: [nvdimm] }),
      inDevices({ memories: [{ alias, access: 'shared' }] }),
      ['devices.memories[0].access'],
    ],
    [
      'files are accessed as its preset states',
      inDevices({ filesystems: [shared] }),
      inDevices({ filesystems: [{ target: { dir: 'data' }, accessmode: 'mapped', fmode: '0777' }] }),
      ['devices.filesystems[0].accessmode', 'devices.filesystems[0].fmode'],
    ],
    [
      'a log is not truncated',
      inDevices({ serials: [log] }),
      inDevices({ serials: [{ target: { port: 0 }, log: { append: false } }] }),
      ['devices.serials[0].log.append'],
    ],
    [
      'a record of crashes becomes no larger',
      inDevices({ pstore }),
      inDevices({ pstore: { size: { unit: 'KiB', value: 128 } } }),
      ['devices.pstore.size'],
    ],
    ['firmware is not written to', inOs(code), inOs({ readonly: false }), ['os.loader.readonly']],
  ])('%s', (_, stated, sent, fields) => {
    const preset = cluster('granting', { domain: stated })
    expect(refused(vmWith(sent), [preset])).toEqual(fields)
    expect(refused(vmWith({}), [preset])).toEqual([])
    expect(refused(vmWith(sent), [cluster('granting', { strength: 'Enforce', domain: stated })])).not.toContain(
      // What it states is set back.
      stated.devices?.disks?.[0]?.device === undefined ? '' : fields[0],
    )
    const { vm } = complete(vmWith(sent), { ...options([preset]), skipRules: true }) as Completed
    expect(ungrantedReach(vm, options([preset])).map(({ field }) => field)).toEqual(
      expect.arrayContaining(fields.map((field) => `spec.domain.${field}`)),
    )
  })

  test.each<[string, Domain, Domain]>([
    [
      'what the guest sees of a disk, and that it does not write',
      inDevices({ disks: [{ type: 'block', source: { dev: '/dev/sdb' }, target: { dev: 'sda' } }] }),
      inDevices({
        disks: [
          {
            device: 'cdrom',
            readonly: {},
            driver: { cache: 'none' },
            serial: 'a',
            boot: { order: 1 },
            target: { dev: 'sda', bus: 'sata' },
          },
        ],
      }),
    ],
    [
      'a floppy drive',
      inDevices({ disks: [{ type: 'file', source: { file: '/srv/a.img' }, target: { dev: 'fda' } }] }),
      inDevices({ disks: [{ device: 'floppy', target: { dev: 'fda', bus: 'fdc' } }] }),
    ],
    [
      'what completion would write',
      inDevices({ disks: [{ type: 'block', source: { dev: '/dev/sdb' }, target: { dev: 'vda' } }] }),
      inDevices({ disks: [{ device: 'disk', target: { dev: 'vda', bus: 'virtio' } }] }),
    ],
    [
      'how the guest mounts a directory',
      inDevices({ filesystems: [shared] }),
      inDevices({ filesystems: [{ accessmode: 'passthrough', readonly: {}, target: { dir: 'data' } }] }),
    ],
  ])('users choose %s', (_, stated, sent) => {
    const presets = [cluster('granting', { domain: stated })]
    const { vm } = completed(vmWith(sent), presets)
    expect(vm.spec.domain).toMatchObject(sent)
    expect(ungrantedReach(vm, options(presets))).toEqual([])
    const cut = namespaced('cut', {
      strength: 'Enforce',
      remove: ['domain.devices.disks[0].boot'],
    })
    expect(refused(vmWith(sent), [...presets, cut])).toEqual([])
  })

  test('a preset of the namespace has no log truncated', () => {
    const cut = namespaced('cut', { strength: 'Enforce', remove: ['domain.devices.serials[0].log.append'] })
    const preset = cluster('log', { domain: inDevices({ serials: [log] }) })
    expect(refused(vmWith({}), [preset, cut])).toContain('devices.serials[0].log.file')
  })

  describe('a preset that states another device in its place states nothing of it:', () => {
    const raw = { type: 'file', source: { file: '/srv/raw' }, target: { dev: 'vda', bus: 'virtio' } }
    const image = { alias, type: 'file', source: { file: '/srv/image' } }
    const granting = cluster('granting', { strength: 'Enforce', domain: inDevices({ disks: [raw] }) })
    const both = { ...raw, alias }
    const volumes = [{ name: 'data', emptyDisk: { capacity: '1Gi' } }]
    const chosen = vmWith(inDevices({ disks: [{ alias, type: 'file', target: { dev: 'vda' } }] }))

    test.each<[string, object, object, readonly string[]]>([
      ['its format', image, { driver: { type: 'qcow2' } }, ['devices.disks[0].driver.type']],
      ['what is done to it', image, { transient: {} }, ['devices.disks[0].transient']],
      [
        'the format of a volume',
        { alias, type: 'volume', source: { volume: 'data' } },
        { driver: { type: 'qcow2' } },
        ['devices.disks[0].driver.type'],
      ],
    ])('%s', (_, other, more, fields) => {
      const presets = [granting, cluster('other', { volumes, domain: inDevices({ disks: [{ ...other, ...more }] }) })]
      expect(refused(chosen, presets)).toEqual(fields)
      expect(ungrantedReach(vmWith(inDevices({ disks: [{ ...both, ...more }] })), options(presets))).not.toEqual([])
    })

    test('the format of a variable store', () => {
      const os = { ...base.os, loader: code, nvram: { template: '/srv/vars.fd', value: '/srv/store.fd' } }
      const store = cluster('store', { strength: 'Enforce', domain: { features: { acpi: {} }, os } as Domain })
      const nvram = { value: '/srv/store.qcow2', format: 'qcow2' }
      const other = cluster('other', { domain: { os: { ...base.os, nvram } } as Domain })
      const presets = [store, other]
      expect(refused(vmWith({}), [store])).toEqual([])
      expect(refused(vmWith({}), presets)).toEqual(['os.nvram.format'])
      const stored = vmWith({
        features: { acpi: {} },
        os: { ...os, nvram: { ...os.nvram, format: 'qcow2' } },
      } as Domain)
      expect(ungrantedReach(stored, options(presets))).not.toEqual([])
    })

    test('one that states no device does', () => {
      const more = { driver: { type: 'qcow2' }, transient: {} }
      const policy = cluster('policy', { domain: inDevices({ disks: [{ target: { dev: '*' }, ...more }] }) })
      const { vm } = completed(chosen, [granting, policy])
      expect(vm.spec.domain.devices?.disks?.[0]).toMatchObject({ ...both, ...more })
      expect(ungrantedReach(vm, options([granting, policy]))).toEqual([])
    })
  })

  test('a VM without the restriction that its preset states is not started', () => {
    const presets = [cluster('granting', { domain: inDevices({ disks: [{ ...block, readonly: {} }] }) })]
    expect(ungrantedReach(completed(vmWith({}), presets).vm, options(presets))).toEqual([])
    expect(ungrantedReach(vmWith(inDevices({ disks: [block] })), options(presets))[0]?.message).toContain(
      'only with spec.domain.devices.disks[0].readonly, which is missing',
    )
  })

  test('every field of such a device is decided', () => {
    const free = (element: Element, path: string): readonly string[] =>
      Object.entries(element.fields).flatMap(([key, field]) => {
        if (field.ofGrant !== undefined || field.reach === 'host' || field.live === true || key === 'source') return []
        const below = field.at === 'child' ? elementOf(field) : undefined
        const isMixed = below !== undefined && Object.values(below.fields).some(({ ofGrant }) => ofGrant !== undefined)
        return isMixed ? free(below, `${path}${key}.`) : [`${path}${key}`]
      })
    const at = (element: Element, [key = '', ...rest]: readonly string[]): Element => {
      const field = element.fields[key]
      if (field?.at !== 'child' && field?.at !== 'children') throw new Error(`no element: ${key}`)
      return rest.length === 0 ? elementOf(field) : at(elementOf(field), rest)
    }
    const freeOf = (...path: string[]) => free(at(domain, path), '').join(' ')
    expect({
      disks: freeOf('devices', 'disks'),
      filesystems: freeOf('devices', 'filesystems'),
      memories: freeOf('devices', 'memories'),
      pstore: freeOf('devices', 'pstore'),
      loader: freeOf('os', 'loader'),
    }).toEqual({
      disks:
        'type model snapshot driver backingStore target geometry blockio iotune throttlefilters serial wwn vendor product boot alias acpi address',
      filesystems:
        'type multidevs model driver binary.cache binary.sandbox binary.lock binary.threadPool binary.openfiles idmap target boot alias acpi address',
      memories:
        'discard uuid target.dynamicMemslots target.node target.label target.block target.requested target.address alias acpi address',
      pstore: 'backend alias acpi address',
      loader: 'secure stateless format',
    })
  })
})

describe('a tap of a plugin of the node', () => {
  const lab = { dev: 'tap0', plugin: 'lab' }
  const devices = { interfaces: [{}] }
  const labels = { lab: 'yes' }
  const granting = cluster('lab', { selector: { matchLabels: labels }, taps: [lab] })
  const withTaps = (vm: VirtualMachine, ...taps: Tap[]): VirtualMachine => ({
    ...vm,
    spec: { ...vm.spec, taps },
  })
  const fieldsOf = (vm: VirtualMachine, presets: readonly Preset[]): string[] => {
    const outcome = run(vm, presets)
    return outcome.outcome === 'refused' ? outcome.causes.map(({ rule, field }) => `${rule} ${field}`) : []
  }

  test('is granted by the preset that states it, also to a user who repeats it, and is granted again', () => {
    const { vm } = completed(withTaps(vmWith({ devices }, labels), lab), [granting])
    expect(vm.spec).toMatchObject({ taps: [lab], domain: { devices: { interfaces: [{ type: 'ethernet' }] } } })
    expect(completed(vm, [granting]).vm.spec).toEqual(vm.spec)
    expect(ungrantedReach(vm, options([granting]))).toEqual([])
    expect(ungrantedReach(vm, options([])).map(({ field }) => field)).toEqual(['spec.taps[0]'])
  })

  test.each<[string, VirtualMachine, readonly Preset[]]>([
    ['without a preset', withTaps(vmWith({ devices }, labels), lab), []],
    ['of another plugin', withTaps(vmWith({ devices }, labels), { ...lab, plugin: 'other' }), [granting]],
    ['that is called differently', withTaps(vmWith({ devices }), { ...lab, dev: 'tap1' }), [granting]],
    [
      'that a claim attributes to a preset',
      claiming(withTaps(vmWith({ devices }), lab), { by: [['', 'lab', 'r']], at: { spec: { taps: { 0: 0 } } } }),
      [granting],
    ],
  ])('is refused %s', (_, vm, presets) => {
    expect(fieldsOf(vm, presets)).toContain('host-reach spec.taps[0]')
  })

  test('needs no grant if it is virtset’s own, and its network is of the namespace', () => {
    expect(fieldsOf(withTaps(vmWith({ devices }), { dev: 'tap0', plugin: 'routed' }), [])).toEqual([])
    expect(fieldsOf(withTaps(vmWith({ devices }), redirected('lab')), [])).toEqual([])
  })

  const redirected = (network: string): Tap => ({ dev: 'tap0', plugin: 'redirect', network })
  const networked = cluster('networked', { selector: { matchLabels: labels }, taps: [redirected('infra/lab')] })

  test('reaches a network of another namespace only with a preset that states it', () => {
    const [own, foreign] = [vmWith({ devices }, labels), withTaps(vmWith({ devices }, labels), redirected('infra/lab'))]
    expect(completed(own, [networked]).vm.spec).toMatchObject({ taps: [redirected('infra/lab')] })
    expect(fieldsOf(foreign, [networked])).toEqual([])
    expect(fieldsOf(foreign, [])).toEqual(['host-reach spec.taps[0]'])
    // The plugin of one and the network of another are no grant together.
    const other = withTaps(vmWith({ devices }, labels), { ...lab, network: 'infra/other' })
    expect(fieldsOf(other, [granting])).toEqual(['host-reach spec.taps[0]'])
    expect(fieldsOf(withTaps(vmWith({ devices }, labels), redirected('infra/other')), [networked])).toEqual([
      'host-reach spec.taps[0]',
    ])
    expect(fieldsOf(withTaps(vmWith({ devices }, labels), { ...lab, network: 'infra/lab' }), [networked])).toEqual([
      'host-reach spec.taps[0]',
    ])
  })
})

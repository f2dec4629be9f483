import fc from 'fast-check'
import type { Domain } from '../../api/domain/domain.ts'
import { completedByAnnotation, type VirtualMachine } from '../../api/virtual-machine.ts'
import type { Preset, PresetSpec } from '../../api/preset.ts'

/** A VM, presets, and the steps that happen to the VM in order. */
export interface World {
  readonly presets: readonly Preset[]
  readonly vm: VirtualMachine
  readonly steps: readonly Step[]
}

export type Step =
  /** Sent again unchanged. */
  | { readonly kind: 'again' }
  /** Sent again with other content, and a claim that may be forged. */
  | { readonly kind: 'edited'; readonly edit: Edit }
  /** Sent again after a preset was deleted or created. */
  | { readonly kind: 'presets'; readonly without: number; readonly more: readonly Preset[] }

export interface Edit {
  readonly domain: Domain
  readonly labels: Labels
  /** Whether lists of the edit come before those of the VM, in their place, or replace them. */
  readonly place: 'before' | 'after' | 'instead'
  readonly claim: Claim
}

type Labels = Readonly<Record<string, string>>

/** A text for the provenance annotation, `stored` for the unchanged one, or none. */
type Claim = 'stored' | 'none' | { readonly text: string }

export const namespace = { name: 'team', labels: { team: 'yes' } }
const apiVersion = 'virtset.io/v1alpha1'

/** Absent `absent` times as often as present. */
const maybe = <T>(value: fc.Arbitrary<T>, absent = 3) =>
  fc.oneof({ arbitrary: fc.constant(undefined), weight: absent }, { arbitrary: value, weight: 1 })
/** Omits undefined members. */
const some = <T extends object>(model: { readonly [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<Partial<T>> =>
  fc.record(model).map((record) => {
    const left = Object.entries(record).filter(([, value]) => value !== undefined)
    return Object.fromEntries(left) as Partial<T>
  })

const alias = (...names: string[]) =>
  maybe(
    fc.constantFrom(...names).map((name) => ({ name })),
    2,
  )
const id = fc.constantFrom('0x1050', '0x1234', '0xdead')
const hostdev = some({
  mode: maybe(fc.constant('subsystem'), 1),
  type: fc.constant('usb'),
  managed: maybe(fc.boolean(), 4),
  source: fc.tuple(id, id).map(([vendor, product]) => ({ vendor: { id: vendor }, product: { id: product } })),
  alias: alias('ua-a', 'ua-b'),
})
const userInterface = some({ type: fc.constant('user'), alias: alias('ua-c', 'ua-d') })
const bridge = some({
  type: fc.constant('bridge'),
  source: fc.constantFrom('br0', 'br1').map((name) => ({ bridge: name })),
  virtualport: maybe(
    some({
      type: fc.constant('openvswitch'),
      parameters: maybe(
        some({
          interfaceid: maybe(fc.constant('11111111-2222-4333-8444-555555555555'), 2),
          profileid: maybe(fc.constantFrom('gold', 'silver'), 2),
        }).filter((parameters) => Object.keys(parameters).length > 0),
      ),
    }),
    2,
  ),
  alias: alias('ua-c', 'ua-d'),
})
const disk = fc
  .tuple(fc.constantFrom('vda', 'vdb'), fc.constantFrom('file', 'block'), fc.constantFrom('/data/a', '/dev/sda'))
  .map(([dev, type, path]) => ({ type, source: type === 'file' ? { file: path } : { dev: path }, target: { dev } }))
const cdrom = fc.constantFrom('sda', 'sdb').map((dev) => ({ device: 'cdrom', target: { dev, bus: 'sata' } }))
const filesystem = fc
  .tuple(fc.constantFrom('/data', '/etc'), fc.constantFrom('data', 'etc'))
  .map(([dir, tag]) => ({ type: 'mount', source: { dir }, target: { dir: tag } }))
const vsock = fc.constantFrom({}, { cid: { auto: true } }, { cid: { address: 5 } }, { model: 'virtio' })
const seclabel = fc.constantFrom({}, { type: 'none' }, { type: 'none', model: 'selinux' }, { type: 'dynamic' })
const star = fc.constantFrom({ alias: { name: '*' }, managed: true }, { alias: { name: '*' }, mode: 'subsystem' })
const emulator = fc.constantFrom('/usr/bin/qemu-system-x86_64', '/tmp/evil')
const title = maybe(fc.constantFrom('a', 'b'))

/** Items of one list with distinct keys. */
const several = <T>(item: fc.Arbitrary<T>, weight?: number, keyOf: (item: T) => unknown = (one) => one) =>
  maybe(fc.uniqueArray(item, { minLength: 1, maxLength: 3, selector: (one) => keyOf(one) ?? Symbol('none') }), weight)

const aliasOf = (item: { readonly alias?: { readonly name: string } | undefined }) => item.alias?.name
const deviceOf = ({ target }: { readonly target: { readonly dev: string } }) => target.dev
const tagOf = ({ target }: { readonly target: { readonly dir: string } }) => target.dir

/** VMs and presets that do not fit the description of a domain are refused or quarantined. */
const domainOf = (domain: object): Domain => domain as Domain

const anything = some({
  title,
  cputune: maybe(
    fc.constantFrom(512, 1024).map((shares) => ({ shares })),
    9,
  ),
  seclabels: several(seclabel, 9, () => 'one'),
  qemuCommandline: maybe(
    fc.constantFrom(['-D', '/a'], ['-D', '/b'], ['/a', '-D']).map((values) => ({
      args: values.map((value) => ({ value })),
    })),
    6,
  ),
  devices: some({
    emulator: maybe(emulator, 6),
    hostdevs: several(hostdev, 1, aliasOf),
    interfaces: several(fc.oneof(bridge, userInterface), 2, aliasOf),
    disks: several(fc.oneof(disk, cdrom), 4, deviceOf),
    filesystems: several(filesystem, 6, tagOf),
    vsock: maybe(vsock, 4),
  }),
}).map(domainOf)

const granting = fc.oneof(
  anything,
  star.map((item) => domainOf({ devices: { hostdevs: [item] } })),
)

const harmless = some({
  title,
  devices: some({
    interfaces: several(userInterface, 2, aliasOf),
    disks: several(cdrom, 3, deviceOf),
    hostdevs: fc.constant(undefined),
  }),
}).map(domainOf)

const labels = some({
  tier: maybe(fc.constantFrom('gold', 'public'), 1),
  gpu: maybe(fc.constant('x'), 2),
}) as fc.Arbitrary<Labels>

const selector: fc.Arbitrary<PresetSpec['selector']> = fc.oneof(
  { arbitrary: fc.constant({}), weight: 4 },
  fc.constant({ matchLabels: { tier: 'gold' } }),
  fc.constant({ matchLabels: { gpu: 'x' } }),
  fc.constant({ matchExpressions: [{ key: 'tier', operator: 'NotIn' as const, values: ['public'] }] }),
  fc.constant({ matchExpressions: [{ key: 'gpu', operator: 'Exists' as const }] }),
)

const hasNo = (name: string) =>
  `!has(object.spec.domain.devices) || !has(object.spec.domain.devices.${name}) || size(object.spec.domain.devices.${name}) == 0`

const condition = fc.constantFrom(
  { name: 'no-hostdevs', expression: hasNo('hostdevs') },
  { name: 'no-interfaces', expression: hasNo('interfaces') },
  { name: 'no-title', expression: '!has(object.spec.domain.title)' },
)

const remove = fc.constantFrom(
  'domain.devices.hostdevs[0]',
  'domain.devices.hostdevs[1]',
  'domain.devices.hostdevs[0].managed',
  'domain.devices.hostdevs[alias.name=ua-a]',
  'domain.devices.interfaces[0]',
  'domain.devices.interfaces[alias.name=ua-c]',
  'domain.devices.disks[target.dev=vda]',
  'domain.devices.filesystems[0]',
  'domain.seclabels[0]',
  'domain.qemuCommandline.args',
  'domain.devices.vsock',
  'domain.title',
)

const common = {
  selector,
  mode: maybe(fc.constantFrom('Warn' as const, 'Audit' as const), 9),
  priority: fc.integer({ min: 0, max: 5 }),
}

/** Default presets cannot remove. */
const withStrength = (spec: object & { readonly remove?: unknown }, isEnforced: boolean) => {
  const { remove: removed, ...rest } = spec
  return isEnforced ? { ...rest, ...(removed === undefined ? {} : { remove: removed }), strength: 'Enforce' } : rest
}

const clusterPreset = fc
  .record({
    name: fc.constantFrom('c0', 'c1', 'c2', 'c3'),
    isEnforced: fc.boolean(),
    spec: some({
      ...common,
      namespaceSelector: maybe(fc.constant({ matchLabels: { other: 'yes' } }), 12),
      matchConditions: maybe(
        condition.map((one) => [one]),
        2,
      ),
      remove: maybe(
        remove.map((path) => [path]),
        3,
      ),
      domain: granting,
    }),
  })
  .map(({ name, isEnforced, spec }) => ({
    apiVersion,
    kind: 'ClusterVirtualMachinePreset',
    metadata: { name },
    spec: withStrength(spec, isEnforced),
  }))

const namespacedPreset = fc
  .record({
    name: fc.constantFrom('n0', 'n1', 'n2', 'n3'),
    isEnforced: fc.boolean(),
    spec: some({
      ...common,
      matchConditions: maybe(
        condition.map((one) => [one]),
        5,
      ),
      remove: maybe(fc.array(remove, { minLength: 1, maxLength: 2 }), 1),
      metadata: maybe(
        labels.map((injected) => ({ labels: injected })),
        1,
      ),
      domain: maybe(harmless, 2),
    }),
  })
  .map(({ name, isEnforced, spec }) => ({
    apiVersion,
    kind: 'VirtualMachinePreset',
    metadata: { name, namespace: namespace.name },
    spec: withStrength(spec, isEnforced),
  }))

/** Faults of a preset are found when it is compiled. */
const presetsOf = (preset: fc.Arbitrary<object>, maxLength: number) =>
  fc.array(preset as fc.Arbitrary<Preset>, { minLength: 0, maxLength })

const places = fc.constantFrom(
  ['metadata', 'labels', 'tier'],
  ['metadata', 'labels', 'gpu'],
  ['spec'],
  ['spec', 'domain'],
  ['spec', 'domain', 'title'],
  ['spec', 'domain', 'seclabels'],
  ['spec', 'domain', 'qemuCommandline', 'args'],
  ['spec', 'domain', 'qemuCommandline', 'args', '1'],
  ['spec', 'domain', 'devices'],
  ['spec', 'domain', 'devices', 'emulator'],
  ['spec', 'domain', 'devices', 'vsock'],
  ['spec', 'domain', 'devices', 'hostdevs'],
  ['spec', 'domain', 'devices', 'hostdevs', '0'],
  ['spec', 'domain', 'devices', 'hostdevs', '1'],
  ['spec', 'domain', 'devices', 'hostdevs', '1', 'source'],
  ['spec', 'domain', 'devices', 'interfaces'],
  ['spec', 'domain', 'devices', 'interfaces', '0'],
  ['spec', 'domain', 'devices', 'interfaces', '0', 'virtualport', 'parameters'],
  ['spec', 'domain', 'devices', 'interfaces', '0', 'mac'],
  ['spec', 'domain', 'devices', 'disks', '0'],
  ['spec', 'domain', 'uuid'],
)

const by = [
  ['', 'c0', 'r'],
  ['', 'c1', 'r'],
  ['team', 'n0', 'r'],
  '=emulator',
  '=uuid',
  '=interface-mac',
  '=virtualport-id',
  'user',
]

/** Sets the value at a path of a tree, replacing what was there. */
const planted = (tree: object, [key = '', ...rest]: readonly string[], end: unknown): object => {
  const below: unknown = Reflect.get(tree, key)
  const branch = typeof below === 'object' && below !== null && !Array.isArray(below) ? below : {}
  return { ...tree, [key]: rest.length === 0 ? end : planted(branch, rest, end) }
}

const origin = fc.nat({ max: by.length - 1 })
const forged = fc
  .record({
    at: fc.array(fc.tuple(places, origin), { minLength: 1, maxLength: 5 }),
    over: fc.array(fc.tuple(places, fc.constantFrom('a', 'gold', '/tmp/evil', 5, {}, [])), { maxLength: 2 }),
  })
  .map(({ at, over }) => ({
    text: JSON.stringify({
      v: 1,
      by,
      at: at.reduce((tree, [path, place]) => planted(tree, path, place), {}),
      over: over.reduce((tree, [path, value]) => planted(tree, path, [[by.length - 1, value]]), {}),
    }),
  }))
const claim: fc.Arbitrary<Claim> = fc.oneof(
  { arbitrary: fc.constant('stored' as const), weight: 2 },
  fc.constant('none' as const),
  { arbitrary: forged, weight: 3 },
)

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.constant({ kind: 'again' as const }),
  {
    arbitrary: fc.record({
      kind: fc.constant('edited' as const),
      edit: fc.record({
        domain: anything,
        labels,
        place: fc.constantFrom('before' as const, 'after' as const, 'instead' as const),
        claim,
      }),
    }),
    weight: 3,
  },
  fc.record({
    kind: fc.constant('presets' as const),
    without: fc.nat({ max: 3 }),
    more: presetsOf(fc.oneof(clusterPreset, namespacedPreset), 1),
  }),
)

/** A mixture: a VM without host reach is not interesting, but most VMs with host reach are refused. */
const written = fc.oneof({ arbitrary: harmless, weight: 2 }, anything)

export const worlds: fc.Arbitrary<World> = fc
  .record({
    cluster: presetsOf(clusterPreset, 3),
    namespaced: presetsOf(namespacedPreset, 3),
    domain: written,
    labels,
    claim,
    steps: fc.array(step, { minLength: 1, maxLength: 4 }),
  })
  .map(({ cluster, namespaced, domain, labels: own, claim, steps }) => ({
    presets: [...cluster, ...namespaced],
    vm: withClaim(vmOf(domain, own), claim),
    steps,
  }))

const vmOf = (domain: Domain, own: Labels): VirtualMachine => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: namespace.name, labels: own },
  spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } }, ...domain } },
})

function withClaim(vm: VirtualMachine, claim: Claim): VirtualMachine {
  if (claim === 'stored') return vm
  const { [completedByAnnotation]: _claim, ...others } = vm.metadata.annotations ?? {}
  const annotations = claim === 'none' ? others : { ...others, [completedByAnnotation]: claim.text }
  return { ...vm, metadata: { ...vm.metadata, annotations } }
}

/** A stored VM as a user sends it again. */
export function edited(vm: VirtualMachine, { domain, labels: own, place, claim }: Edit): VirtualMachine {
  const { metadata, spec } = vm
  const merged = {
    ...vm,
    metadata: { ...metadata, labels: { ...metadata.labels, ...own } },
    spec: { ...spec, domain: domainOf(mergedWith(spec.domain, domain, place)) },
  }
  return withClaim(merged, claim)
}

function mergedWith(value: object, more: object, place: Edit['place']): object {
  const merged: Record<string, unknown> = { ...value }
  for (const [key, added] of Object.entries(more)) {
    const known = merged[key]
    if (Array.isArray(known) && Array.isArray(added))
      merged[key] = place === 'before' ? [...added, ...known] : place === 'after' ? [...known, ...added] : added
    else if (isObject(known) && isObject(added)) merged[key] = mergedWith(known, added, place)
    else merged[key] = added
  }
  return merged
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

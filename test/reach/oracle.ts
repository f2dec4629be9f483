import { createHash } from 'node:crypto'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import type { Preset } from '../../api/preset.ts'
import { isRecord } from '../../api/schema.ts'

/**
 * Finds what of a stored VM reaches the host although no cluster preset states it: written for the few devices of
 * `worlds.ts`, in plain loops, and without any code of completion, so that one mistake is not made twice.
 *
 * A VM may hold a value that reaches the host if a cluster preset in mode Apply states it for this item, selects the VM
 * by its labels, and its condition holds for what remains of the VM without what cluster presets state.
 */
export function ungranted(vm: VirtualMachine, presets: readonly Preset[], emulator: string): string[] {
  const cluster = presets.filter(({ kind, spec }) => kind === 'ClusterVirtualMachinePreset' && modeOf(spec) === 'Apply')
  const granting = cluster.filter((preset) => isMatch(preset, vm, cluster))
  const { domain } = vm.spec
  const found: string[] = []
  const stated = (path: readonly string[], value: unknown): boolean =>
    granting.some(({ spec }) => isSame(at(spec.domain, path), value))
  const check = (path: readonly string[], defaults: readonly unknown[]) => {
    const value = at(domain, path)
    if (value !== undefined && !defaults.includes(value) && !stated(path, value)) found.push(path.join('.'))
  }
  check(['devices', 'emulator'], [emulator])
  check(['cputune', 'shares'], [])
  check(['qemuCommandline', 'args'], [])
  if (at(domain, ['devices', 'vsock']) !== undefined) {
    if (!granting.some(({ spec }) => at(spec.domain, ['devices', 'vsock']) !== undefined)) found.push('devices.vsock')
    check(['devices', 'vsock', 'model'], ['virtio', 'virtio-non-transitional', 'virtio-transitional'])
    check(['devices', 'vsock', 'cid', 'address'], [])
    check(['devices', 'vsock', 'cid', 'auto'], [at(domain, ['devices', 'vsock', 'cid', 'address']) === undefined])
  }
  for (const { list, keys, host, isElement = false } of lists) {
    for (const [index, item] of itemsOf(domain, list).entries()) {
      const leaves = host(item, vm)
      const own = granting.flatMap(({ spec }) => itemsOf(spec.domain, list))
      const isBy = (preset: object, path: readonly string[], value: unknown) => isSame(at(preset, path), value)
      const about = own.filter((preset) => isStar(preset) || keys.some((key) => isSameKey(preset, item, key)))
      const hasKey = (one: object) => keys.some((key) => at(one, key) !== undefined)
      // Without a common key, a preset's item states this item only if it has its whole reach.
      const keyless = hasKey(item) ? own.filter((preset) => !hasKey(preset)) : own
      const missing = leaves.filter(
        ({ path, value, isDefault }) => !isDefault && !about.some((preset) => isBy(preset, path, value)),
      )
      const isWhole = keyless.some((preset) => missing.every(({ path, value }) => isBy(preset, path, value)))
      const isPresent = !isElement || about.length + keyless.length > 0
      if (!isPresent || (missing.length > 0 && !isWhole)) found.push(`${list.join('.')}[${index}]`)
    }
  }
  return found
}

type Path = readonly string[]

interface Leaf {
  readonly path: Path
  readonly value: unknown
  /** Whether completion sets it by default. */
  readonly isDefault: boolean
}

interface List {
  readonly list: Path
  readonly keys: readonly Path[]
  /** Whether the presence of an item reaches the host. */
  readonly isElement?: true
  /** The leaves of an item that reach the host. */
  readonly host: (item: object, vm: VirtualMachine) => readonly Leaf[]
}

const alias: Path = ['alias', 'name']

const lists: readonly List[] = [
  {
    list: ['devices', 'hostdevs'],
    keys: [alias],
    host: (item) => [
      ...leaf(item, ['mode'], ['subsystem']),
      ...leaf(item, ['managed'], [false]),
      ...leaf(item, ['type'], []),
      ...leaf(item, ['source', 'vendor', 'id'], []),
      ...leaf(item, ['source', 'product', 'id'], []),
    ],
  },
  {
    list: ['devices', 'interfaces'],
    keys: [alias, ['mac', 'address']],
    host: (item, vm) => [
      ...leaf(item, ['type'], ['user']),
      ...leaf(item, ['source', 'bridge'], []),
      ...leaf(item, ['virtualport', 'type'], []),
      ...leaf(item, ['virtualport', 'parameters', 'profileid'], []),
      ...leaf(item, ['virtualport', 'parameters', 'interfaceid'], [portId(item, vm)]),
    ],
  },
  {
    list: ['devices', 'disks'],
    keys: [['target', 'dev'], alias],
    host: (item) => [...leaf(item, ['source', 'file'], []), ...leaf(item, ['source', 'dev'], [])],
  },
  {
    list: ['devices', 'filesystems'],
    keys: [['target', 'dir'], alias],
    host: (item) => [...leaf(item, ['type'], ['mount']), ...leaf(item, ['source', 'dir'], [])],
  },
  {
    list: ['seclabels'],
    keys: [['model']],
    isElement: true,
    host: (item) => [
      ...leaf(item, ['type'], []),
      ...leaf(item, ['model'], at(item, ['type']) === 'static' ? [] : ['none']),
      ...leaf(item, ['relabel'], [true, false]),
    ],
  },
]

function leaf(item: object, path: Path, defaults: readonly unknown[]): Leaf[] {
  const value = at(item, path)
  return value === undefined ? [] : [{ path, value, isDefault: defaults.includes(value) }]
}

/** As specified in docs/decisions/reach.md. */
function portId(item: object, { metadata, spec }: VirtualMachine): string {
  const mac = at(item, ['mac', 'address'])
  const text = `virtual port\n${metadata.namespace}\n${spec.domain.uuid}\n${typeof mac === 'string' ? mac : ''}`
  const bytes = createHash('sha256').update(text.toLowerCase()).digest().subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

const modeOf = ({ mode = 'Apply' }: Preset['spec']): string => mode

function isMatch({ spec }: Preset, vm: VirtualMachine, cluster: readonly Preset[]): boolean {
  const { labels = {} } = vm.metadata
  const isSelected = Object.entries(spec.selector.matchLabels ?? {}).every(([key, value]) => labels[key] === value)
  const isNotExcluded = (spec.selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
    if (operator === 'NotIn') return !values.includes(labels[key] ?? '')
    return operator === 'Exists' ? labels[key] !== undefined : false
  })
  const isInScope = Object.keys(spec.namespaceSelector?.matchLabels ?? {}).length === 0
  const isTrue = (spec.matchConditions ?? []).every(({ name }) => isConditionTrue(name, vm, cluster))
  return isSelected && isNotExcluded && isInScope && isTrue
}

/** The conditions of `worlds.ts`, by name. */
function isConditionTrue(name: string, { spec: { domain } }: VirtualMachine, cluster: readonly Preset[]): boolean {
  const isOfCluster = (list: Path, item: object) =>
    cluster.some(({ spec }) =>
      itemsOf(spec.domain, list).some((stated) => !isStar(stated) && isWithin(withoutStarred(stated), item)),
    )
  const isFree = (list: Path) => itemsOf(domain, list).every((item) => isOfCluster(list, item))
  if (name === 'no-hostdevs') return isFree(['devices', 'hostdevs'])
  if (name === 'no-interfaces') return isFree(['devices', 'interfaces'])
  if (name === 'no-title')
    return domain.title === undefined || cluster.some(({ spec }) => spec.domain?.title === domain.title)
  throw new Error(`no such condition: ${name}`)
}

const isStar = (item: object): boolean => at(item, alias) === '*'

const isSameKey = (left: object, right: object, key: Path): boolean =>
  at(left, key) !== undefined && isSame(at(left, key), at(right, key))

/** The item without the members that presets for every item override. */
const withoutStarred = (item: object): object =>
  Object.fromEntries(Object.entries(item).filter(([key]) => key !== 'managed' && key !== 'mode'))

/** Whether `whole` contains everything in `part`. */
const isWithin = (part: unknown, whole: unknown): boolean =>
  isRecord(part) && isRecord(whole)
    ? Object.entries(part).every(([key, value]) => isWithin(value, whole[key]))
    : isSame(part, whole)

const isSame = (left: unknown, right: unknown): boolean => JSON.stringify(left) === JSON.stringify(right)

function at(value: unknown, path: Path): unknown {
  let found = value
  for (const key of path) found = isRecord(found) ? found[key] : undefined
  return found
}

function itemsOf(domain: unknown, list: Path): readonly object[] {
  const found = at(domain, list)
  return Array.isArray(found) ? found.filter(isRecord) : []
}

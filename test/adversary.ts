import { isRecord } from '../api/schema.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { nodeCapabilities } from '../completion/nodes.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset, type CompiledPreset } from '../presets/compile.ts'
import { systemClock } from '../runtime/clock.ts'
import { cachesWithout } from '../webhooks/admission/caches.ts'
import { createEngine } from '../webhooks/admission/engine.ts'
import { noPermissions } from '../webhooks/admission/permission.ts'
import { admissionReviewOf, parseAdmissionReview } from '../webhooks/admission/request.ts'
import { mutate, validate } from '../webhooks/admission/handler.ts'
import { chance, exampleSpecs, type Chance } from './chance.ts'
import { nodeProfile, olderCapabilities } from './node-profile.ts'
import { operationsOf } from './operations.ts'
import { patched } from './fuzz.ts'

type Json = { [key: string]: unknown }

/** An attack: an object of a kind, and how admission receives it. */
interface Attack {
  readonly kind: string
  /**
   * `again`: a VM as it was completed, sent as a new one; `changed`: as an update of itself; `injected`: a preset, then
   * a VM that it selects.
   */
  readonly way: 'new' | 'again' | 'changed' | 'injected'
  readonly object: Json
  /** For `injected`: the specs of more presets, and a part of the domain of the VM that all of them select. */
  readonly more?: { readonly presets: readonly Json[]; readonly domain: Json }
}

export interface Cost {
  readonly kilobytes: number
  readonly cpuMs: number
}

export interface Found extends Cost {
  readonly seed: number
  /** The goal is at most 1: 50 ms, and 1 ms for each KB that was sent. */
  readonly score: number
  readonly attack: Attack
}

const scoreOf = ({ kilobytes, cpuMs }: Cost): number => cpuMs / (50 + kilobytes)

const matchLabels = { app: 'web' }

const templateOf = (spec: unknown) => ({ metadata: { labels: matchLabels }, spec })

const kinds: { readonly [kind: string]: (spec: Json) => Json } = {
  VirtualMachine: (spec) => spec,
  VirtualMachineConfig: (spec) => ({ template: templateOf(spec) }),
  VirtualMachineGroup: (spec) => ({ replicas: 2, selector: { matchLabels }, template: templateOf(spec) }),
  VirtualMachinePreset: (spec) => ({ selector: { matchLabels }, ...spec }),
  ClusterVirtualMachinePreset: (spec) => ({ selector: { matchLabels }, strength: 'Enforce', ...spec }),
}

const ways: { readonly [kind: string]: readonly Attack['way'][] } = {
  VirtualMachine: ['new', 'new', 'again', 'changed'],
  VirtualMachineConfig: ['new'],
  VirtualMachineGroup: ['new', 'changed'],
  VirtualMachinePreset: ['new', 'injected', 'injected'],
  ClusterVirtualMachinePreset: ['injected'],
}

function randomAttack({ pick }: Chance): Attack {
  const kind = pick([...Object.keys(kinds), 'VirtualMachine', 'VirtualMachine', 'VirtualMachinePreset']) ?? ''
  const spec = structuredClone(pick(exampleSpecs) ?? {})
  return {
    kind,
    way: pick(ways[kind] ?? ['new']) ?? 'new',
    object: {
      apiVersion: 'virtset.io/v1alpha1',
      kind,
      metadata: { name: 'vm', namespace: 'default', labels: { ...matchLabels }, annotations: {} },
      spec: kinds[kind]?.(spec) ?? spec,
    },
  }
}

/** Every object and list of a value, with its key. */
function holdersOf(value: unknown): { readonly key: string; readonly holder: Json | unknown[] }[] {
  const found: { key: string; holder: Json | unknown[] }[] = []
  const visit = (key: string, one: unknown): void => {
    if (found.length > 20_000) return
    if (Array.isArray(one)) {
      found.push({ key, holder: one })
      for (const item of one) visit(key, item)
    } else if (isRecord(one)) {
      found.push({ key, holder: one })
      for (const [name, member] of Object.entries(one)) visit(name, member)
    }
  }
  visit('', value)
  return found
}

const sizes = [2, 3, 10, 50, 128, 255, 256, 512, 1024, 4096]

/** Changes the part in which items differ: names of disks, addresses, numbers. */
const unique = (index: number, old: unknown): unknown => {
  if (typeof old === 'number') return index
  if (typeof old !== 'string') return old
  if (/^[a-z]d[a-z]$/.test(old))
    return `${old.slice(0, 2)}${index.toString(26).replaceAll(/./g, (one) => String.fromCodePoint(97 + Number.parseInt(one, 26)))}`
  return /^\d+$/.test(old) ? String(index) : `${old}${index}`
}

const texts = ({ pick }: Chance): string => {
  const count = pick([10, 1000, 10_000, 60_000]) ?? 10
  const of = pick([
    'a',
    '0-4095,^1,',
    '5,^7,',
    '0-99999,^3-9,',
    '0-4095',
    ' ',
    '\t',
    '1 ',
    ' , ',
    '0 - 4095 , ^ 1 ,',
    ',',
    '[',
    ']',
    '.',
    '/',
    '\n',
    '𝒳',
    '1',
    '0x',
    '${',
    '-',
  ])
  return (of ?? 'a').repeat(Math.ceil(count / (of ?? 'a').length)).slice(0, count)
}

const xmls = ({ pick }: Chance): string => {
  const count = pick([10, 1000, 5000]) ?? 10
  const of = pick([
    '<a/>',
    '<a x="1" y="2"/>',
    '<b xmlns="urn:b"/>',
    '&amp;',
    '<!-- -->',
    `<c ${Array.from({ length: 20 }, (_, at) => `xmlns:n${at}="urn:${at}"`).join(' ')}/>`,
  ])
  const nested = pick([true, false])
  return nested ? `${'<a>'.repeat(count)}${'</a>'.repeat(count)}` : `<r xmlns="urn:r">${(of ?? '').repeat(count)}</r>`
}

const numbers = [0, 1, 7, 31, 63, 255, 256, 1024, 4096, 65_535, 4_294_967_295, -1, '18446744073709551615']

const mutations: readonly ((attack: Attack, random: Chance) => void)[] = [
  // A list of many.
  ({ object }, { pick, random }) => {
    const lists = holdersOf(object['spec']).filter(({ holder }) => Array.isArray(holder) && holder.length > 0)
    const list = pick(lists)?.holder
    if (!Array.isArray(list)) return
    const isUnique = random() < 0.6
    const item: unknown = pick(list)
    const length = Math.min(pick(sizes) ?? 2, Math.ceil(maxBytes / 2 / textLength(item)))
    for (let index = list.length; index < length; index += 1) {
      const copy: unknown = structuredClone(item)
      if (isUnique) makeUnique(copy, index)
      list.push(copy)
    }
  },
  // The same, of a device that the VM did not have.
  ({ object }, { pick, random }) => {
    const from = pick(exampleSpecs)
    const devices = isRecord(from) && isRecord(from['domain']) ? from['domain']['devices'] : undefined
    const domain = domainOf(object)
    if (!isRecord(devices) || domain === undefined) return
    const [key, list] = pick(Object.entries(devices)) ?? ['', undefined]
    if (!Array.isArray(list)) return
    const length = Math.min(pick(sizes) ?? 2, Math.ceil(maxBytes / 2 / textLength(list)))
    const all = isRecord(domain['devices']) ? domain['devices'] : {}
    const items = Array.from({ length }, (_, index) => {
      const copy: unknown = structuredClone(list[index % list.length])
      if (random() < 0.6) makeUnique(copy, index)
      return copy
    })
    domain['devices'] = { ...all, [key]: [...(Array.isArray(all[key]) ? all[key] : []), ...items] }
  },
  // Empty devices of any kind.
  ({ object }, { pick }) => {
    const domain = domainOf(object)
    if (domain === undefined) return
    const key = pick(deviceLists) ?? 'disks'
    const all = isRecord(domain['devices']) ? domain['devices'] : {}
    domain['devices'] = { ...all, [key]: Array.from({ length: pick(sizes) ?? 2 }, () => ({})) }
  },
  // Unknown keys, close to known ones.
  ({ object }, { pick }) => {
    const holder = pick(holdersOf(object['spec']))?.holder
    if (!isRecord(holder)) return
    const names = [...Object.keys(holder), 'devices', 'controllers', 'memory', 'throttlegroups']
    const count = pick([1, 10, 100, 255, 1000, 5000]) ?? 1
    for (let index = 0; index < count; index += 1) {
      const name = names[index % names.length] ?? 'x'
      Object.assign(holder, { [`${name.slice(0, -1)}${index}${name.slice(-1)}`]: index })
    }
  },
  // Another value.
  (attack, chances) => {
    const holder = chances.pick(holdersOf(attack.object['spec']))?.holder
    if (holder === undefined) return
    const key = chances.pick(Object.keys(holder))
    if (key === undefined) return
    const value = chances.pick([texts(chances), chances.pick(numbers), chances.pick(numbers), {}, [], true, null])
    Reflect.set(holder, key, value)
  },
  // The same wrong value in each item of a list.
  ({ object }, { pick }) => {
    const list = pick(holdersOf(object['spec']).filter(({ holder }) => Array.isArray(holder)))?.holder
    if (!Array.isArray(list)) return
    const key = pick(list.flatMap((item) => (isRecord(item) ? Object.keys(item) : [])))
    const value = pick(['kvmm', 'virtioo', -1, '', {}, 4_294_967_295, '0-4095', 'vda'])
    if (key !== undefined) for (const item of list) if (isRecord(item)) Reflect.set(item, key, value)
  },
  // A part of another VM.
  ({ object }, { pick }) => {
    const from = pick(exampleSpecs)
    const domain = domainOf(object)
    if (!isRecord(from) || !isRecord(from['domain']) || domain === undefined) return
    const [key, part] = pick(Object.entries(from['domain'])) ?? ['x', 0]
    domain[key] = structuredClone(part)
  },
  // Deep nesting.
  ({ object }, { pick }) => {
    const disk = pick(
      holdersOf(object['spec']).filter(({ key, holder }) => key === 'disks' && isRecord(holder)),
    )?.holder
    if (!isRecord(disk)) return
    const link = pick<Json>([{ type: 'file' }, { type: 'file', format: { type: 'qcow2' }, source: { file: '/b' } }])
    let chain: Json = {}
    for (let depth = pick([5, 40, 120]) ?? 5; depth > 0; depth -= 1) chain = { ...link, backingStore: chain }
    Reflect.set(disk, 'backingStore', chain)
  },
  ({ object }, chances) => {
    const domain = domainOf(object)
    if (domain !== undefined) domain['metadata'] = xmls(chances)
  },
  // Fields beside the domain.
  ({ object }, { pick }) => {
    const spec = specOf(object)
    const count = pick(sizes) ?? 2
    const many = <T>(make: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => make(index))
    const map = Object.fromEntries(many((index) => [`key${index}`, `value${index}`]))
    const term = { matchExpressions: many((index) => ({ key: `k${index}`, operator: 'In', values: ['a', 'b'] })) }
    const parts: Json[] = [
      { volumes: many((index) => ({ name: `v${index}`, emptyDisk: { capacity: '1Gi' } })) },
      { volumes: many(() => ({})) },
      { nodeSelector: map },
      { tolerations: many((index) => ({ key: `k${index}`, operator: 'Exists' })) },
      { tolerations: many(() => ({ key: '-' })) },
      {
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: many(() => term).slice(0, 64) },
          },
        },
      },
      { cputune: 1 },
    ]
    if (spec !== undefined) Object.assign(spec, pick(parts))
  },
  ({ object }, { pick }) => {
    const metadata = object['metadata']
    const count = pick(sizes) ?? 2
    const map = Object.fromEntries(Array.from({ length: count }, (_, index) => [`key${index}`, `v${index}`]))
    if (isRecord(metadata)) Reflect.set(metadata, pick(['labels', 'annotations']) ?? '', { ...map, ...matchLabels })
  },
  ({ object }, { pick }) => {
    const domain = domainOf(object)
    if (domain === undefined) return
    const cells = Array.from({ length: pick([2, 64, 128]) ?? 2 }, (_, id) => ({
      id,
      cpus: String(id),
      memory: 64,
      distances: { siblings: Array.from({ length: 128 }, (_item, sibling) => ({ id: sibling, value: 20 })) },
    }))
    const pins = Array.from({ length: pick([255, 4096]) ?? 1 }, (_, vcpu) => ({ vcpu, cpuset: '0-4095,^1,^3' }))
    const memnodes = Array.from({ length: pick([64, 1024]) ?? 1 }, (_, cellid) => ({ cellid, nodeset: '0-4095,^1,^3' }))
    const features = Array.from({ length: pick([2, 512]) ?? 2 }, (_, index) => ({
      name: `feature${index}`,
      policy: pick(['require', 'forbid', 'disable']),
    }))
    const parts: Json[] = [
      { os: { type: { os: 'hvm', machine: 'pc-q35-99.9' } } },
      { numatune: { memnodes }, cpu: { numa: { cells } } },
      { cpu: { mode: 'host-model', features } },
      { memoryBacking: { hugepages: { pages: pins.map(({ vcpu }) => ({ size: vcpu + 3, unit: 'KiB' })) } } },
      { cpu: { numa: { cells } } },
      { cputune: { vcpupins: pins }, vcpu: { value: 4096 } },
      { vcpus: { vcpus: Array.from({ length: 4096 }, (_, id) => ({ id, enabled: true })) }, vcpu: { value: 4096 } },
      { iothreads: 1024, iothreadids: { iothreads: Array.from({ length: 1024 }, (_, id) => ({ id: id + 1 })) } },
      { cpu: { features: Array.from({ length: 1024 }, (_, id) => ({ name: `f${id}`, policy: 'require' })) } },
    ]
    Object.assign(domain, pick(parts))
  },
  // Sets of CPUs: a few characters name thousands, and white space is allowed between all parts.
  ({ object }, chances) => {
    const domain = domainOf(object)
    if (domain === undefined) return
    const { pick } = chances
    const of = pick(['same', 'shifted', 'single', 'text'])
    const long = texts(chances)
    const set = (index: number): string =>
      of === 'same' ? '0-4095' : of === 'shifted' ? `${index}-4095` : of === 'single' ? String(index) : long
    const many = <T>(make: (index: number) => T): T[] =>
      Array.from({ length: pick([2, 16, 128, 256]) ?? 2 }, (_, index) => make(index))
    const monitors = many((index) => ({ level: 3, vcpus: set(index) }))
    const cachetunes = many((index) => ({ vcpus: set(index), caches: [{ id: 0, level: 3, type: 'both', size: 1 }] }))
    const memorytunes = many((index) => ({ vcpus: set(index), nodes: [{ id: 0, bandwidth: 50 }] }))
    const parts: Json[] = [
      { cachetunes: [{ vcpus: '0-4095', monitors }] },
      { cachetunes: cachetunes.slice(0, 16).map((one) => ({ ...one, monitors })) },
      { cachetunes, memorytunes },
      { memorytunes: [{ vcpus: '0-4095', monitors: monitors.map(({ vcpus }) => ({ vcpus })) }] },
      { vcpuscheds: many((index) => ({ vcpus: set(index), scheduler: 'batch' })) },
      { iothreadscheds: many((index) => ({ iothreads: set(index), scheduler: 'batch' })) },
      { emulatorpin: { cpuset: set(0) }, vcpupins: many((vcpu) => ({ vcpu, cpuset: set(vcpu) })) },
    ]
    Object.assign(domain, { vcpu: { value: 4096 }, cputune: pick(parts) })
  },
  // Other fields of a preset.
  ({ object, kind }, { pick }) => {
    const spec = object['spec']
    if (!kind.endsWith('Preset') || !isRecord(spec)) return
    const count = pick([2, 64, 256]) ?? 2
    const paths = Array.from({ length: count }, (_, index) => `domain.devices.disks[target.dev=vd${index}]`)
    const parts: Json[] = [
      { strength: 'Enforce', remove: paths },
      { strength: 'Enforce', remove: paths.map((_, index) => `domain.devices.interfaces[${index}]`) },
      { selector: { matchExpressions: paths.map((_, index) => ({ key: `k${index}`, operator: 'DoesNotExist' })) } },
      { domain: { devices: { disks: [{ target: { dev: '*' }, driver: { cache: 'none' } }] } } },
    ]
    Object.assign(spec, pick(parts))
  },
  // Many presets of a namespace, and a VM with which they are compared.
  (attack, { pick }) => {
    const more = pick([keylessItems, joiningItems, longPaths])?.(pick([1, 4, 16]) ?? 1)
    if (attack.way === 'injected' && more !== undefined) Object.assign(attack, { more })
  },
  ({ object }, { pick }) => {
    const holder = pick(holdersOf(object['spec']))?.holder
    const key = isRecord(holder) ? pick(Object.keys(holder)) : undefined
    if (isRecord(holder) && key !== undefined) Reflect.deleteProperty(holder, key)
  },
]

const times = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at))

/** Items without a key are compared with each item of the VM, here by long sets of nodes. */
function keylessItems(count: number): NonNullable<Attack['more']> {
  const excluded = times(2200, (index) => `^${(7 * index) % 9999}`).join()
  const pagesOf = (pages: readonly Json[]): Json => ({ memoryBacking: { hugepages: { pages } } })
  const presets = times(count, (preset) => ({
    domain: pagesOf(times(4, (index) => ({ nodeset: `${excluded},5-9,${4 * preset + index}` }))),
  }))
  return { presets, domain: pagesOf(times(256, (index) => ({ size: 2 + index, unit: 'MiB', nodeset: '0' }))) }
}

/** Disks with a target, with an alias, and with both: the last ones join the others, from the last to the first. */
function joiningItems(count: number): NonNullable<Attack['more']> {
  const target = (index: number): Json => ({ target: { dev: unique(index + 26, 'sda') } })
  const alias = (index: number): Json => ({ alias: { name: `ua-${index}` } })
  const all = times(400 * count, (index) => index)
  const lists = [
    all.map(target),
    all.map(alias),
    all.map((index) => ({ ...target(index), ...alias(index) })),
    all.toReversed().map((index) => ({ ...target(index), ...alias(index + 1) })),
  ]
  const presets = lists.flatMap((disks) =>
    times(Math.ceil(disks.length / 500), (at) => disks.slice(500 * at, 500 * at + 500)),
  )
  return { presets: presets.map((disks) => ({ domain: { devices: { disks } } })), domain: {} }
}

/** Paths to remove with long keys are compared with each item of the VM. */
function longPaths(count: number): NonNullable<Attack['more']> {
  const key = `${'backingStore.'.repeat(70)}type`
  const presets = times(count, (preset) => ({
    strength: 'Enforce',
    remove: times(40, (index) => `domain.devices.disks[${key}=${preset}-${index}]`),
  }))
  const disks = times(255, (index) => ({ target: { dev: unique(index + 26, 'sda') } }))
  return { presets, domain: { devices: { disks } } }
}

const deviceLists = [
  'disks',
  'controllers',
  'leases',
  'filesystems',
  'interfaces',
  'smartcards',
  'serials',
  'parallels',
  'consoles',
  'channels',
  'inputs',
  'tpms',
  'graphics',
  'sounds',
  'audios',
  'videos',
  'hostdevs',
  'redirdevs',
  'hubs',
  'watchdogs',
  'rngs',
  'panics',
  'shmems',
  'memories',
  'cryptos',
]

function makeUnique(value: unknown, index: number): void {
  if (!isRecord(value)) return
  for (const [key, member] of Object.entries(value)) {
    if (isRecord(member)) makeUnique(member, index)
    else if (/^(?:dev|name|index|id|port|bus|slot|unit|vcpu|cellid|file|address)$/.test(key))
      Reflect.set(value, key, unique(index, member))
  }
}

function specOf(object: Json): Json | undefined {
  const spec = object['spec']
  if (!isRecord(spec)) return undefined
  const template = spec['template']
  if (isRecord(template)) return isRecord(template['spec']) ? (template['spec'] as Json) : undefined
  return spec as Json
}

function domainOf(object: Json): Json | undefined {
  const domain = specOf(object)?.['domain']
  return isRecord(domain) ? (domain as Json) : undefined
}

const reviewText = (object: Json, oldObject?: unknown): string =>
  JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: 'uid',
      kind: { group: 'virtset.io', version: 'v1alpha1', kind: object['kind'] },
      name: 'vm',
      namespace: 'default',
      operation: oldObject === undefined ? 'CREATE' : 'UPDATE',
      userInfo: { username: 'mallory' },
      object,
      ...(oldObject === undefined ? {} : { oldObject }),
    },
  })

/** A cluster with many kinds of nodes: half of them have an older QEMU, and each has other CPUs and NUMA nodes. */
const nodes = nodeCapabilities(
  Array.from({ length: 20 }, (_, index) => {
    const image = index % 2 === 0 ? bundledCapabilities : olderCapabilities('10.0')
    const { cpuModels = [] } = image.accelerators.kvm ?? {}
    const kvm = { cpuModels, cpuFeatures: ['aes', `feature${index}`] }
    const host = { numaNodes: 1 + index, pageSizes: [4, 2048] }
    return nodeProfile(`n${index}`, { ...image, accelerators: { ...image.accelerators, kvm }, host })
  }),
)

const engineWith = (presets: readonly CompiledPreset[]) =>
  createEngine(
    { ...cachesWithout(systemClock), candidates: createCandidates(presets), capabilities: () => nodes },
    () => Promise.resolve(false),
  )

const vmWith = (domain: Json): Json => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'default', labels: matchLabels },
  spec: { domain: { type: 'kvm', memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm' } }, ...domain } },
})

const presetWith = (spec: Json, index: number): Json => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachinePreset',
  metadata: { name: `p${index}`, namespace: 'default' },
  spec: { selector: { matchLabels }, priority: -index, ...spec },
})

/** The most expensive of the requests of an attack. */
export function costOf(attack: Attack, clock: () => number): Cost {
  const { object, way, kind, more = { presets: [], domain: {} } } = attack
  const presets = way === 'injected' ? [object, ...more.presets.map(presetWith)] : []
  const engine = engineWith(presets.flatMap(compiled))
  let worst: Cost = { kilobytes: 0, cpuMs: 0 }
  const review = (text: string, handle: typeof mutate) => {
    const sinceMs = clock()
    const parsed = parseAdmissionReview(JSON.parse(text))
    if (!('request' in parsed)) throw new Error(parsed.problem)
    const result = handle(parsed.request, engine, { controllers: [] }, noPermissions)
    JSON.stringify(admissionReviewOf(parsed.request, result))
    const cost = { kilobytes: Buffer.byteLength(text) / 1024, cpuMs: clock() - sinceMs }
    if (scoreOf(cost) > scoreOf(worst)) worst = cost
    return result
  }
  const sent = reviewText(object)
  const result = review(sent, mutate)
  if (kind === 'VirtualMachine' && result.allowed) {
    const stored = JSON.parse(patched(sent, operationsOf(result))).request.object
    review(reviewText(stored), validate)
    if (way === 'again') review(reviewText(stored), mutate)
    if (way === 'changed') {
      review(reviewText(object, stored), mutate)
      review(reviewText(stored, object), mutate)
    }
  }
  if (way === 'changed' && !result.allowed) review(reviewText(object, { ...object, spec: {} }), mutate)
  if (way === 'injected') {
    // The bytes of the presets count once, those of a VM for each VM.
    const text = reviewText(vmWith(more.domain))
    const before = worst
    worst = { kilobytes: 0, cpuMs: 0 }
    review(text, mutate)
    const padded = { ...worst, kilobytes: Buffer.byteLength(JSON.stringify(presets)) / 1024 }
    worst = scoreOf(padded) > scoreOf(before) ? padded : before
  }
  return worst
}

function compiled(object: Json): CompiledPreset[] {
  const one = compilePreset(object)
  return 'preset' in one ? [one.preset] : []
}

/** A third of the API server's limit: the goal is a rate. */
const maxBytes = 1024 * 1024

/** The approximate length of the JSON, or more than `maxBytes` as soon as that is exceeded. */
function textLength(value: unknown): number {
  if (typeof value === 'string') return value.length + 2
  if (typeof value !== 'object' || value === null) return 4
  let length = 2
  for (const [key, member] of Object.entries(value)) {
    length += (Array.isArray(value) ? 1 : key.length + 4) + textLength(member)
    if (length > maxBytes) return length
  }
  return length
}

/** Undefined if it became too large. */
function mutated(attack: Attack, random: Chance): Attack | undefined {
  const next = structuredClone(attack)
  for (let count = 1 + Math.floor(random.random() * 3); count > 0; count -= 1) {
    random.pick(mutations)?.(next, random)
    if (textLength(next.object) > maxBytes) return undefined
  }
  return next
}

/**
 * Hill-climbs from a random request to one that is as expensive as possible for its size: a mutation is accepted if it
 * costs more.
 * @param clock CPU time in milliseconds
 */
export function climb(seed: number, steps: number, clock: () => number): Found {
  const random = chance(seed)
  let attack = randomAttack(random)
  let best: Cost = costOf(attack, clock)
  for (let step = 0; step < steps; step += 1) {
    const next = mutated(attack, random)
    if (next === undefined) continue
    const cost = costOf(next, clock)
    // Measured again, so that neither older garbage nor a function that is not compiled counts.
    const again = scoreOf(cost) > scoreOf(best) ? costOf(next, clock) : cost
    if (Math.min(scoreOf(cost), scoreOf(again)) <= scoreOf(best)) continue
    attack = next
    best = scoreOf(cost) < scoreOf(again) ? cost : again
  }
  return { seed, ...best, score: scoreOf(best), attack }
}

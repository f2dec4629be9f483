import { isRecord } from '../schema.ts'
import { canonicalCpuset, numbersOf, rangesOf, restOf, sizeOfRanges } from './cpuset.ts'
import type { Domain } from './domain.ts'
import { scaled } from './elements/size.ts'
import { maxVcpus } from './limits.ts'

type Devices = NonNullable<Domain['devices']>
type Item<K extends keyof Devices> = NonNullable<Devices[K]> extends readonly (infer I)[] ? I : never

/**
 * How libvirt rewrites a domain that it stores, if the result depends on several elements; stored.ts has what depends
 * on a single one. `domain` must already be in libvirt's spelling and order. Values of a wrong type are unchanged.
 */
export const rewrite = (domain: Domain): Domain => {
  const result = { ...domain }
  if (isRecord(domain.os)) result.os = rewriteOs(domain.os)
  if (isRecord(domain.cpu)) result.cpu = rewriteCpu(domain.cpu, domain.vcpu)
  if (isRecord(domain.iothreadids) && isList(domain.iothreadids.iothreads) && domain.iothreads !== undefined) {
    result.iothreads = Math.max(Number(domain.iothreads), domain.iothreadids.iothreads?.length ?? 0)
  }
  if (isRecord(domain.vcpu)) result.vcpu = rewriteVcpu(domain.vcpu, domain)
  if (isRecord(domain.cputune)) result.cputune = rewriteCputune(domain.cputune, domain.vcpu)
  if (isRecord(domain.memtune)) put(result, 'memtune', rewriteMemtune(domain.memtune))
  if (domain.seclabels && isList(domain.seclabels)) {
    // libvirt does not store a label without a type.
    result.seclabels = domain.seclabels.filter(({ type }) => type !== undefined).map(rewriteSeclabel)
  }
  if (isRecord(domain.devices)) result.devices = rewriteDevices(domain.devices)
  if (isRecord(domain.pm)) result.pm = rewritePm(domain.pm)
  if (result.iothreads === 0) delete result.iothreads
  if (result.metadata === '') delete result.metadata
  for (const key of emptied) if (isRecord(result[key]) && Object.keys(result[key]).length === 0) delete result[key]
  return rewriteMemory(result)
}

/** libvirt does not store these if they are empty. */
const emptied = [
  'memoryBacking',
  'features',
  'blkiotune',
  'cputune',
  'numatune',
  'iothreadids',
  'defaultiothread',
  'vcpus',
  'pm',
  'qemuCommandline',
  'qemuCapabilities',
  'qemuOverride',
  'keywrap',
  'perf',
  'throttlegroups',
] as const

type PowerManagement = NonNullable<Domain['pm']>

/** Omits a state that is neither allowed nor forbidden. */
const rewritePm = ({ suspendToMem, suspendToDisk, ...rest }: PowerManagement): PowerManagement => ({
  ...(suspendToMem?.enabled === undefined ? {} : { suspendToMem }),
  ...(suspendToDisk?.enabled === undefined ? {} : { suspendToDisk }),
  ...rest,
})

const isList = (value: unknown): boolean => Array.isArray(value) && value.every(isRecord)

/** Sets the key, or removes it if the value is undefined. */
const put = <T extends object, K extends keyof T>(object: T, key: K, value: T[K] | undefined): void => {
  if (value === undefined) delete object[key]
  else object[key] = value
}

const without = <T extends object, K extends keyof T>(object: T, ...keys: K[]): Omit<T, K> => {
  const result = { ...object }
  for (const key of keys) delete result[key]
  return result
}

const kibibytes = { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } as const

const amount = (size: unknown): bigint =>
  isRecord(size) ? (scaled(kibibytes, size['value'], size['unit'])?.value ?? 0n) : 0n

/** The balloon cannot leave more memory to the guest than it has. */
const rewriteMemory = (domain: Domain): Domain => {
  const total = amount(domain.memory)
  if (!domain.memory || total === 0n || amount(domain.currentMemory) <= total) return domain
  const { dumpCore: _, ...size } = domain.memory
  return { ...domain, currentMemory: size }
}

const rewriteOs = (os: NonNullable<Domain['os']>): NonNullable<Domain['os']> => {
  const { firmwareSelection } = os
  if (!isRecord(firmwareSelection) || !isList(firmwareSelection.features)) return os
  // The keys are in the variable store. libvirt cannot inspect one that is on a server.
  const isRemote = isRecord(os.nvram) && os.nvram.type === 'network' && os.loader?.type !== 'rom'
  const features = firmwareSelection.features
    ?.filter(({ name }) => !isRemote || name !== 'enrolled-keys')
    .toSorted((a, b) => ((a.name ?? '') < (b.name ?? '') ? -1 : 1))
  return { ...os, firmwareSelection: { ...firmwareSelection, ...(features ? { features } : {}) } }
}

const rewriteCpu = (cpu: NonNullable<Domain['cpu']>, vcpu: Domain['vcpu']): NonNullable<Domain['cpu']> => {
  const result = { ...cpu }
  // The model of the host's CPU depends on the node that runs the VM.
  if (cpu.mode === 'host-passthrough' || cpu.mode === 'maximum') delete result.model
  if (cpu.mode === 'host-model') {
    put(result, 'model', cpu.model?.value === undefined ? undefined : { fallback: 'allow', ...cpu.model })
  }
  const cells = cpu.numa?.cells
  if (cells && isList(cells)) {
    result.numa = {
      ...cpu.numa,
      cells: withAllCpus(cells.toSorted(byId), Number(vcpu?.value ?? 1)).map((cell) =>
        cell.distances?.siblings && isList(cell.distances.siblings)
          ? { ...cell, distances: { siblings: cell.distances.siblings.toSorted(byId) } }
          : cell,
      ),
    }
  }
  return result
}

type Cell = NonNullable<NonNullable<NonNullable<Domain['cpu']>['numa']>['cells']>[number]

/** Virtual CPUs that are in no NUMA node belong to the first one. */
const withAllCpus = (cells: readonly Cell[], count: number): Cell[] => {
  const [first, ...others] = cells
  if (typeof first?.cpus !== 'string' || !(count <= mostCpus)) return [...cells]
  const free = restOf(
    count,
    cells.flatMap(({ cpus }) => (typeof cpus === 'string' ? [cpus] : [])),
  )
  return free === '' ? [...cells] : [{ ...first, cpus: canonicalCpuset(`${first.cpus},${free}`) }, ...others]
}

/** More CPUs than any machine has. */
const mostCpus = 16_384

const byId = (a: { id?: number | string }, b: { id?: number | string }): number => Number(a.id ?? 0) - Number(b.id ?? 0)

/** If numad places the memory and the threads are not pinned, numad also places the virtual CPUs. */
const rewriteVcpu = (
  stated: NonNullable<Domain['vcpu']>,
  { numatune, cputune = {} }: Domain,
): NonNullable<Domain['vcpu']> => {
  const vcpu = stated.current === stated.value ? without(stated, 'current') : stated
  if (vcpu.placement === 'auto') return without(vcpu, 'cpuset')
  const isPlaced =
    vcpu.cpuset !== undefined || cputune.vcpupins?.length || cputune.emulatorpin || cputune.iothreadpins?.length
  return numatune?.memory?.placement === 'auto' && !isPlaced ? { ...vcpu, placement: 'auto' } : vcpu
}

type Cputune = NonNullable<Domain['cputune']>

const rewriteCputune = (stated: Cputune, vcpu: Domain['vcpu']): Cputune => {
  const cputune = { ...stated }
  if (stated.vcpuscheds && isList(stated.vcpuscheds)) put(cputune, 'vcpuscheds', oneEach(stated.vcpuscheds, 'vcpus'))
  if (stated.iothreadscheds && isList(stated.iothreadscheds))
    put(cputune, 'iothreadscheds', oneEach(stated.iothreadscheds, 'iothreads'))
  return withNamedPins(cputune, vcpu)
}

/**
 * libvirt writes one element for each scheduled thread, in ascending order. Lists with more than a VM has remain: a
 * thread is in several entries, which libvirt refuses, and each could name thousands again.
 */
const oneEach = <K extends 'vcpus' | 'iothreads', S extends { readonly [key in K]?: string }>(
  scheds: S[],
  key: K,
): S[] => {
  const count = scheds.reduce((sum, one) => sum + sizeOfRanges(rangesOf(one[key])), 0)
  if (count > maxVcpus) return scheds
  return scheds
    .flatMap((one) => {
      const ids = numbersOf(one[key])
      return ids.length === 0 ? [one] : ids.map((id) => ({ ...one, [key]: String(id) }))
    })
    .toSorted((a, b) => Number(a[key]) - Number(b[key]))
}

/** Keeps only the pins of existing virtual CPUs that name CPUs. */
const withNamedPins = (cputune: Cputune, vcpu: Domain['vcpu']): Cputune => {
  const { vcpupins } = cputune
  if (!vcpupins || !isList(vcpupins)) return cputune
  const count = Number(vcpu?.value ?? 1)
  const existing = vcpupins.filter((pin) => pin.cpuset !== undefined && Number(pin.vcpu ?? 0) < count)
  return existing.length === 0 ? without(cputune, 'vcpupins') : { ...cputune, vcpupins: existing }
}

/** In KiB: libvirt's value for "no limit". */
const unlimited = 9_007_199_254_740_991n

const rewriteMemtune = (memtune: NonNullable<Domain['memtune']>): Domain['memtune'] => {
  const limits = Object.entries(memtune).filter(
    ([key, limit]) => amount(limit) < unlimited && (key !== 'minGuarantee' || amount(limit) > 0),
  )
  return limits.length === 0 ? undefined : Object.fromEntries(limits)
}

type Seclabel = NonNullable<Domain['seclabels']>[number]

/** Without a security module, a label cannot be generated. */
const rewriteSeclabel = (label: Seclabel): Seclabel => {
  if (label.type === 'none' || (label.type === 'dynamic' && label.model === 'none')) {
    return { ...without(label, 'relabel'), type: 'none' }
  }
  return label.type === 'dynamic' ? without(label, 'label') : label
}

const rewriteDevices = (devices: Devices): Devices => {
  const result = { ...devices }
  if (devices.consoles && isList(devices.consoles)) result.consoles = rewriteConsoles(devices.consoles, devices.serials)
  if (devices.videos && isList(devices.videos)) result.videos = primaryFirst(devices.videos)
  return result
}

/** The serial console comes first and equals the first serial port. Consoles are numbered in order. */
const rewriteConsoles = (consoles: Item<'consoles'>[], serials: Devices['serials']): Item<'consoles'>[] => {
  const isSerial = ({ target }: Item<'consoles'>): boolean => (target?.type ?? 'serial') === 'serial'
  const firstSerial = isList(serials) ? serials?.[0] : undefined
  return [...consoles.filter(isSerial), ...consoles.filter((one) => !isSerial(one))].map((one, port) => ({
    ...(isSerial(one) && firstSerial ? asConsole(firstSerial) : one),
    target: { ...one.target, port: isSerial(one) ? (firstSerial?.target?.port ?? port) : port },
  }))
}

const asConsole = (serial: Item<'serials'>): Item<'consoles'> => without(serial, 'target')

/** The primary card comes first and is the only one that sets `primary`. A single card is always primary. */
const primaryFirst = (videos: Item<'videos'>[]): Item<'videos'>[] => {
  const isPrimary = ({ model }: Item<'videos'>): boolean => model?.primary === true
  const hasPrimary = videos.some(isPrimary)
  return [...videos.filter(isPrimary), ...videos.filter((one) => !isPrimary(one))].map((video, index) => {
    if (video.model?.primary !== false) return video
    return {
      ...video,
      model: index === 0 && !hasPrimary ? { ...video.model, primary: true } : without(video.model, 'primary'),
    }
  })
}

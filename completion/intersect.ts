import { isDeepStrictEqual } from 'node:util'
import type { Accelerator, Capabilities, CpuModel, MachineType } from '../api/capabilities.ts'

/**
 * The capabilities that all nodes have. An alias of a machine type, and the default, move to the newest common version
 * that is not newer than the target on any node. If a node does not report something, the other nodes' report counts.
 * The result does not depend on order or repetition, because `isCapabilities` accepts only lists that are sorted by
 * name and without repetition.
 */
export function intersect([first, ...rest]: readonly [Capabilities, ...Capabilities[]]): Capabilities {
  return rest.reduce(meet, first)
}

function meet(a: Capabilities, b: Capabilities): Capabilities {
  if (a === b) return a
  const host = a.host && b.host ? meetHosts(a.host, b.host) : (a.host ?? b.host)
  return {
    architecture: a.architecture,
    version: compareVersions(a.version, b.version) <= 0 ? a.version : b.version,
    emulator: a.emulator <= b.emulator ? a.emulator : b.emulator,
    machines: meetMachines(a.machines, b.machines),
    devices: common(a.devices, b.devices),
    accelerators: {
      ...given('kvm', meetAccelerators(a.accelerators.kvm, b.accelerators.kvm)),
      ...given('qemu', meetAccelerators(a.accelerators.qemu, b.accelerators.qemu)),
    },
    hyperv: common(a.hyperv, b.hyperv),
    words: meetWords(a.words, b.words),
    ...given('host', host),
    firmware: a.firmware.filter((one) => b.firmware.some((other) => isDeepStrictEqual(one, other))),
  }
}

type Given<K extends string, T> = { readonly [P in K]?: T }

const given = <K extends string, T>(key: K, value: T | undefined): Given<K, T> =>
  value === undefined ? {} : ({ [key]: value } as Given<K, T>)

function common<T extends string | number>(a: readonly T[], b: readonly T[]): T[] {
  const others = new Set(b)
  return a.filter((one) => others.has(one))
}

/** The value that both nodes report; absent if they differ or one does not report it. */
const agreed = <T extends object, K extends keyof T & string>(key: K, a: T, b: T): Given<K, T[K]> =>
  isDeepStrictEqual(a[key], b[key]) ? given(key, a[key]) : {}

/** Orders `10.0.13` after `10.0.2`, and `4.0.1` after `4.0`. */
export function compareVersions(a: string, b: string): number {
  const [left = [], right = []] = [a, b].map((version) => version.split('.').map(Number))
  const longer = left.length > right.length ? left : right
  const index = longer.findIndex((_, at) => (left[at] ?? 0) !== (right[at] ?? 0))
  return (left[index] ?? 0) - (right[index] ?? 0)
}

/** `pc-q35-10.0` is version 10.0 of `pc-q35`; `isapc` has none. */
export function familyOf({ name }: Pick<MachineType, 'name'>): { readonly family: string; readonly version: string } {
  const [, family = name, version = ''] = /^(.+)-(\d+(?:\.\d+)+)$/.exec(name) ?? []
  return { family, version }
}

function meetMachines(a: readonly MachineType[], b: readonly MachineType[]): MachineType[] {
  const others = new Map(b.map((machine) => [machine.name, machine]))
  const all = a.flatMap((machine) => {
    const other = others.get(machine.name)
    return other === undefined ? [] : [meetMachine(machine, other)]
  })
  const aliases = meetNames(a, b, all, ({ alias }) => alias)
  const defaults = meetNames(a, b, all, ({ isDefault }) => (isDefault ? 'default' : undefined))
  return all.map((machine) => {
    const { name, ...rest } = machine
    return {
      name,
      ...given('alias', aliases.get(machine)),
      ...(defaults.has(machine) ? { isDefault: true } : {}),
      ...rest,
    }
  })
}

function meetMachine(a: MachineType, b: MachineType): Omit<MachineType, 'alias' | 'isDefault'> {
  return {
    name: a.name,
    maxCpus: Math.min(a.maxCpus, b.maxCpus),
    ...agreed('cpu', a, b),
    ...(a.isDeprecated || b.isDeprecated ? { isDeprecated: true } : {}),
    hasAcpi: a.hasAcpi && b.hasAcpi,
    ...(a.canHotplugCpus && b.canHotplugCpus ? { canHotplugCpus: true } : {}),
    ...(a.hasLegacyNumaMemory && b.hasLegacyNumaMemory ? { hasLegacyNumaMemory: true } : {}),
  }
}

/** The common machine types to which an alias or the default moves, if each side has it on one machine type. */
function meetNames(
  a: readonly MachineType[],
  b: readonly MachineType[],
  all: readonly MachineType[],
  nameOf: (machine: MachineType) => string | undefined,
): ReadonlyMap<MachineType, string> {
  const others = new Map(b.map((machine) => [nameOf(machine), machine]))
  const versions = all.map((each) => ({ each, ...familyOf(each) }))
  return new Map(
    a.flatMap((machine) => {
      const name = nameOf(machine)
      const other = name === undefined ? undefined : others.get(name)
      if (name === undefined || other === undefined) return []
      const [one, two] = [familyOf(machine), familyOf(other)]
      if (one.family !== two.family) return []
      const limit = compareVersions(one.version, two.version) <= 0 ? one.version : two.version
      const [newest] = versions
        .filter(({ family, version }) => family === one.family && compareVersions(version, limit) <= 0)
        .toSorted((left, right) => compareVersions(right.version, left.version))
      return newest === undefined ? [] : [[newest.each, name] as const]
    }),
  )
}

function meetAccelerators(a: Accelerator | undefined, b: Accelerator | undefined): Accelerator | undefined {
  if (a === undefined || b === undefined) return undefined
  const others = new Map(b.cpuModels.map((model) => [model.name, model]))
  return {
    cpuModels: a.cpuModels.flatMap((model): CpuModel[] => {
      const other = others.get(model.name)
      if (other === undefined) return []
      const blockers = [...new Set([...model.blockers, ...other.blockers])].toSorted()
      return [{ name: model.name, ...agreed('vendor', model, other), ...agreed('canonical', model, other), blockers }]
    }),
    ...given('cpuFeatures', a.cpuFeatures && b.cpuFeatures && common(a.cpuFeatures, b.cpuFeatures)),
    ...agreed('hostModel', a, b),
  }
}

function meetWords(a: Capabilities['words'], b: Capabilities['words']): Capabilities['words'] {
  const subjects = [...new Set([...Object.keys(a), ...Object.keys(b)])].toSorted()
  return Object.fromEntries(
    subjects.map((subject) => {
      const [left, right] = [a[subject], b[subject]]
      return [subject, left && right ? common(left, right) : (left ?? right ?? [])]
    }),
  )
}

type Host = NonNullable<Capabilities['host']>

function meetHosts(a: Host, b: Host): Host {
  const nodes = [a.numaNodes, b.numaNodes].filter((one) => one !== undefined)
  const pages = a.pageSizes && b.pageSizes ? common(a.pageSizes, b.pageSizes) : (a.pageSizes ?? b.pageSizes)
  return { ...(nodes.length > 0 ? { numaNodes: Math.min(...nodes) } : {}), ...given('pageSizes', pages) }
}

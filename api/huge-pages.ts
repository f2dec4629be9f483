import { numbersOf } from './domain/cpuset.ts'
import type { Domain } from './domain/domain.ts'
import { scaled } from './domain/elements/size.ts'
import { integerOf } from './domain/scalar-value.ts'

/** Memory of the guest that is backed by pages of one size. */
export interface BackedMemory {
  /** The path of its size below `spec.domain`. */
  readonly field: string
  readonly bytes: bigint
  /** The size of the pages in bytes; undefined for normal pages. */
  readonly pageBytes: bigint | undefined
}

/** libvirt's choice if the domain sets no size is the default of the node's kernel, which is this on x86. */
const defaultPageBytes = 2n * 1024n * 1024n
const normalPageBytes = 4096n

/** The parts of the guest's memory, with the pages that back them: its NUMA nodes, or all of it, and its modules. */
export function backedMemory({ memory, memoryBacking, cpu, devices }: Domain): BackedMemory[] {
  const pageBytesOf = pageSizes(memoryBacking?.hugepages, Math.max(1, cpu?.numa?.cells?.length ?? 0))
  const cells = (cpu?.numa?.cells ?? []).map(({ id, memory: value, unit }, index) => ({
    field: `cpu.numa.cells[${index}].memory`,
    bytes: bytesOf(value, unit),
    pageBytes: pageBytesOf(Number(integerOf(id) ?? BigInt(index))),
  }))
  const whole = { field: 'memory.value', bytes: bytesOf(memory?.value, memory?.unit), pageBytes: pageBytesOf(0) }
  const modules = (devices?.memories ?? []).map(({ model, source, target }, index) => {
    const own = bytesOf(source?.pagesize?.value, source?.pagesize?.unit)
    const pageBytes = own === 0n ? pageBytesOf(Number(integerOf(target?.node) ?? 0n)) : hugeOf(own)
    return {
      field: `devices.memories[${index}].target.size.value`,
      bytes: bytesOf(target?.size?.value, target?.size?.unit),
      // Memory devices of the other models are files.
      pageBytes: model === 'dimm' || model === 'virtio-mem' ? pageBytes : undefined,
    }
  })
  return [...(cells.length === 0 ? [whole] : cells), ...modules]
}

/** Bytes in huge pages, by the size of a page in bytes. */
export function hugePageDemand(domain: Domain): ReadonlyMap<bigint, bigint> {
  const demand = new Map<bigint, bigint>()
  for (const { bytes, pageBytes } of backedMemory(domain)) {
    if (pageBytes !== undefined && bytes > 0n) demand.set(pageBytes, (demand.get(pageBytes) ?? 0n) + bytes)
  }
  return demand
}

/** As Kubernetes names the pages in resources and media of volumes: `64Ki`, `2Mi`, `1Gi`. */
export function pageName(pageBytes: bigint): string {
  const [gibibyte, mebibyte, kibibyte] = [2n ** 30n, 2n ** 20n, 2n ** 10n]
  if (pageBytes % gibibyte === 0n) return `${pageBytes / gibibyte}Gi`
  return pageBytes % mebibyte === 0n ? `${pageBytes / mebibyte}Mi` : `${pageBytes / kibibyte}Ki`
}

type HugePages = NonNullable<NonNullable<Domain['memoryBacking']>['hugepages']>

/** Returns the size of the huge pages of a NUMA node of the guest, which has `count` of them. */
function pageSizes(hugepages: HugePages | undefined, count: number): (node: number) => bigint | undefined {
  if (hugepages === undefined) return () => undefined
  const pages = (hugepages.pages ?? []).map(({ size, unit, nodeset }) => ({
    nodeset,
    pageBytes: hugeOf(bytesOf(size, unit)),
  }))
  if (pages.length === 0) return () => defaultPageBytes
  const general = pages.find(({ nodeset }) => nodeset === undefined)?.pageBytes
  // The first of the pages that names a node decides, so later ones are set earlier.
  const ofNode = new Map<number, bigint | undefined>()
  for (const { nodeset, pageBytes } of pages.toReversed()) {
    for (const node of numbersOf(nodeset, count)) ofNode.set(node, pageBytes)
  }
  return (node) => (ofNode.has(node) ? ofNode.get(node) : general)
}

const hugeOf = (bytes: bigint): bigint | undefined => (bytes > normalPageBytes ? bytes : undefined)

/** libvirt rounds sizes up to whole KiB, also those of pages: 2,097,151 bytes are a page of 2 MiB. */
const bytesOf = (value: number | string | undefined, unit: string | undefined): bigint =>
  (scaled({ value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' }, value, unit)?.value ?? 0n) * 1024n

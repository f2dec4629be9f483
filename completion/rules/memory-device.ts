import type { Domain } from '../../api/domain/domain.ts'
import { integerOf } from '../../api/domain/scalar-value.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, missingCapability, notFound, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Memory = DeviceOf<'memories'>

const size = (value: number) => ({ unit: 'MiB' as const, value })

/** A guest with one NUMA node, slots for modules, and these memory devices. */
const growing = (...memories: Memory[]): Domain => ({
  maxMemory: { unit: 'GiB', value: 8, slots: 4 },
  cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 1, unit: 'GiB' }] } },
  devices: { memories },
})

const isModule = (model: Memory['model']): boolean => model === 'dimm' || model === 'nvdimm'

const memoryNode = eachDevice('memories')(
  'memory-device-node',
  'A memory device must be in an existing NUMA node of the guest, except virtio-pmem, which must not name one.',
  ({ model, target }, at, { domain }) => {
    const cells = domain.cpu?.numa?.cells?.length ?? 0
    const node = numberOf(target?.node)
    if (model === 'virtio-pmem') {
      return node === undefined ? [] : [forbidden(`${at}.target.node`, node, 'must not be set for virtio-pmem')]
    }
    if (node === undefined) {
      return cells > 0 && model !== 'sgx-epc'
        ? [required(`${at}.target.node`, 'must be set: the NUMA node of the guest')]
        : []
    }
    if (node < cells) return []
    const message =
      cells === 0 ? 'no NUMA node has this id: cpu.numa has no cells' : `cpu.numa has cells 0 to ${cells - 1} only`
    return [notFound(`${at}.target.node`, node, message)]
  },
  example(
    growing({ model: 'dimm', target: { size: size(256), node: 1 } }),
    growing({ model: 'dimm', target: { size: size(256), node: 0 } }),
  ),
)

const kibibytes = (of: { readonly value?: number | string } | undefined): bigint | undefined => integerOf(of?.value)

const isPowerOfTwo = (value: bigint): boolean => (value & (value - 1n)) === 0n

/** In KiB: a transparent huge page of the host. */
const minBlock = 2048n

/** In bytes: a memory page. */
const pageBytes = 4096n

/** The smallest label area of an NVDIMM, in KiB. */
const minLabel = 128n

const memoryTarget = eachDevice('memories')(
  'memory-device-target',
  'A memory device must have a model, a size, and only the options of its model. The requested size of virtio-mem must be a multiple of its block size and must not exceed its size.',
  ({ model, target, source, access, discard, address, uuid }, at, { capabilities: { devices } }) => {
    const findings: Finding[] = []
    const total = kibibytes(target?.size) ?? 0n
    const block = kibibytes(target?.block)
    const wanted = kibibytes(target?.requested) ?? 0n
    const label = kibibytes(target?.label?.size)
    if (model === undefined) findings.push(required(`${at}.model`, 'must be set'))
    if (total === 0n) findings.push(required(`${at}.target.size`, 'must be set'))
    if (model === 'virtio-mem') {
      if (block === undefined)
        findings.push(required(`${at}.target.block`, 'must be set for virtio-mem: the step in which it grows'))
      else if (!isPowerOfTwo(block) || block < minBlock) {
        findings.push(
          invalid(`${at}.target.block.value`, String(block), 'must be a power of two and at least 2048 KiB'),
        )
      } else {
        const base = integerOf(target?.address?.base)
        if (base !== undefined && base % (block * kibibyte) !== 0n)
          findings.push(
            invalid(`${at}.target.address.base`, hex(base), `must be a multiple of the block size, ${block} KiB`),
          )
        if (wanted % block !== 0n) {
          findings.push(
            invalid(
              `${at}.target.requested.value`,
              String(wanted),
              `must be a multiple of the block size, ${block} KiB`,
            ),
          )
        }
      }
      if (total > 0n && wanted > total) {
        findings.push(invalid(`${at}.target.requested.value`, String(wanted), `must be at most the size, ${total} KiB`))
      }
    }
    if (label !== undefined && (label < minLabel || (total > 0n && label >= total))) {
      findings.push(
        invalid(`${at}.target.label.size.value`, String(label), 'must be at least 128 KiB and less than the size'),
      )
    }
    if ((model === 'nvdimm' || model === 'virtio-pmem') && source?.path === undefined) {
      findings.push(required(`${at}.source.path`, `must be set for ${model}: the file that stores its content`))
    }
    const base = integerOf(target?.address?.base)
    if (model === 'virtio-pmem' && base !== undefined && base % pageBytes !== 0n)
      findings.push(invalid(`${at}.target.address.base`, hex(base), `must be a multiple of ${pageBytes}`))
    if (model?.startsWith('virtio') === true && address?.type !== undefined && address.type !== 'pci')
      findings.push(invalid(`${at}.address.type`, address.type, `must be pci for ${model}`))
    if (model === 'nvdimm' && uuid !== undefined)
      findings.push(forbidden(`${at}.uuid`, uuid, 'must not be set for nvdimm on x86'))
    if (model === 'sgx-epc' && !devices.includes('sgx-epc'))
      findings.push(
        missingCapability('SGX', unsupported(`${at}.model`, model, 'is not supported by QEMU on this node')),
      )
    if (model === 'virtio-pmem' && access === 'private') {
      findings.push(invalid(`${at}.access`, access, 'must be shared for virtio-pmem'))
    }
    if (discard !== undefined && (model === 'nvdimm' || model === 'virtio-pmem')) {
      findings.push(forbidden(`${at}.discard`, discard, `must not be set for ${model}, whose content is persistent`))
    }
    return findings
  },
  example(
    growing({ model: 'virtio-mem', target: { size: size(256), node: 0, block: size(2), requested: size(257) } }),
    growing({ model: 'virtio-mem', target: { size: size(256), node: 0, block: size(2), requested: size(256) } }),
  ),
)

const memorySlots: Rule = {
  id: 'memory-device-slots',
  description: 'All memory devices must fit into `maxMemory`, and each memory module into one of its slots.',
  about: ['memories'],
  *check({ domain }) {
    const devices = list(domain, 'memories')
    if (devices.length === 0) return
    const { maxMemory } = domain
    if (!maxMemory) {
      const message =
        'must be set when there are memory devices: the most memory that the guest can get, and the number of slots'
      yield required('spec.domain.maxMemory', message)
      return
    }
    const slots = numberOf(maxMemory.slots) ?? 0
    const modules = devices.filter(({ model }) => isModule(model)).length
    if (modules > slots) {
      yield invalid('spec.domain.maxMemory.slots', slots, `must be at least ${modules}, the number of memory modules`)
    }
    const cells = domain.cpu?.numa?.cells ?? []
    const boot = cells.reduce((sum, cell) => sum + (integerOf(cell.memory) ?? 0n), 0n)
    const plugged = devices.reduce((sum, { target }) => sum + (kibibytes(target?.size) ?? 0n), 0n)
    const most = integerOf(maxMemory.value) ?? 0n
    if (cells.length > 0 && boot + plugged > most) {
      const message = `must be at least ${boot + plugged} KiB, the sum of NUMA nodes and memory devices`
      yield invalid('spec.domain.maxMemory.value', String(most), message)
    }
  },
  example: example(
    {
      ...growing({ model: 'dimm', target: { size: size(256), node: 0 } }),
      maxMemory: { unit: 'GiB', value: 8, slots: 0 },
    },
    growing({ model: 'dimm', target: { size: size(256), node: 0 } }),
  ),
}

interface Range {
  readonly at: string
  readonly first: bigint
  readonly last: bigint
}

const kibibyte = 1024n
/** The granularity, in KiB, at which an NVDIMM without its label area is mapped. */
const stepOfNvdimm = 2048n

/** In bytes. */
const lengthOf = (target: Memory['target']): bigint => {
  const size = kibibytes(target?.size) ?? 0n
  const label = kibibytes(target?.label?.size)
  return (label === undefined ? size : ((size - label) / stepOfNvdimm) * stepOfNvdimm) * kibibyte
}

const memoryAddress: Rule = {
  id: 'memory-device-address',
  description:
    'The addresses of memory devices must not overlap, and each memory module must have an existing slot of its own.',
  about: ['memories'],
  *check({ domain }) {
    const slots = numberOf(domain.maxMemory?.slots) ?? 0
    const ranges: Range[] = []
    const taken = new Map<number, string>()
    for (const [index, { model, address, target }] of list(domain, 'memories').entries()) {
      const at = `spec.domain.devices.memories[${index}]`
      const slot = address?.type === 'dimm' && isModule(model) ? numberOf(address.slot) : undefined
      if (slot !== undefined) {
        const other = taken.get(slot)
        if (other !== undefined) yield duplicate(`${at}.address.slot`, slot, `is already the slot of ${other}`)
        else taken.set(slot, at)
        if (slots > 0 && slot >= slots)
          yield invalid(`${at}.address.slot`, slot, `must be less than ${slots}, the number of slots`)
      }
      const isVirtio = target?.address?.base !== undefined
      const base = integerOf(isVirtio ? target?.address?.base : address?.base)
      const bytes = lengthOf(target)
      if (base === undefined || base === 0n) continue
      const range = { at, first: base, last: base + bytes }
      const other = ranges.find((one) => range.first < one.last && one.first < range.last)
      ranges.push(range)
      if (!other) continue
      yield invalid(
        isVirtio ? `${at}.target.address.base` : `${at}.address.base`,
        hex(base),
        `overlaps with ${other.at}, which occupies ${hex(other.first)} to ${hex(other.last)}`,
      )
    }
  },
  example: example(
    growing(
      {
        model: 'virtio-mem',
        target: { size: size(256), node: 0, block: size(2), requested: size(2), address: { base: '0x140000000' } },
      },
      {
        model: 'virtio-mem',
        target: { size: size(256), node: 0, block: size(2), requested: size(2), address: { base: '0x148000000' } },
      },
    ),
    growing(
      {
        model: 'virtio-mem',
        target: { size: size(256), node: 0, block: size(2), requested: size(2), address: { base: '0x140000000' } },
      },
      {
        model: 'virtio-mem',
        target: { size: size(256), node: 0, block: size(2), requested: size(2), address: { base: '0x150000000' } },
      },
    ),
  ),
}

const hex = (value: bigint): string => `0x${value.toString(16)}`

export const memoryDeviceRules: readonly Rule[] = [memoryNode, memoryTarget, memorySlots, memoryAddress]

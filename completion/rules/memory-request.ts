import { hugePageDemand } from '../../api/huge-pages.ts'
import { memoryDemand } from '../../api/launcher-memory.ts'
import { quantityValue } from '../../api/quantity.ts'
import type { Domain } from '../../api/domain/domain.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { list } from './device.ts'
import { forbidden, invalid } from './finding.ts'
import type { Rule } from './rule.ts'

const field = 'spec.memoryRequest'

const vm = (memoryRequest: string): VirtualMachineSpec => ({
  domain: { memory: { unit: 'GiB', value: 1 } },
  memoryRequest,
})

/**
 * What allocates all memory of the guest at the start. A device that reaches it directly (VFIO, vDPA) has it pinned, so
 * that the node can neither swap nor reclaim it.
 */
function* allocators(domain: Domain): Iterable<string> {
  const { locked, allocation } = domain.memoryBacking ?? {}
  if (locked !== undefined) yield 'memoryBacking.locked'
  if (allocation?.mode === 'immediate') yield 'memoryBacking.allocation.mode immediate'
  for (const [index, { type }] of list(domain, 'hostdevs').entries()) {
    if (type === 'pci' || type === 'mdev') yield `devices.hostdevs[${index}]`
  }
  for (const [index, { type }] of list(domain, 'interfaces').entries()) {
    if (type === 'hostdev' || type === 'vdpa') yield `devices.interfaces[${index}]`
  }
  for (const [index, { type }] of list(domain, 'disks').entries()) {
    if (type === 'nvme' || type === 'vhostvdpa') yield `devices.disks[${index}]`
  }
}

export const memoryRequest: Rule = {
  id: 'memory-request',
  description:
    '`memoryRequest` must be less than the memory of the guest, and cannot be combined with memory that the node must have at once: dedicated CPUs, locked memory, huge pages for all of it.',
  *check({ spec, domain, isInPod }) {
    const { memoryRequest: text, dedicatedCPUs } = spec
    if (text === undefined || isInPod !== true) return
    if (dedicatedCPUs === true) {
      yield forbidden(
        field,
        text,
        'must not be set with spec.dedicatedCPUs: a Guaranteed pod requests all of its memory',
      )
    }
    const [allocator] = allocators(domain)
    if (allocator !== undefined) {
      yield forbidden(field, text, `must not be set with ${allocator}, which allocates all memory at once`)
    }
    const inPages = [...hugePageDemand(domain).values()].reduce((sum, bytes) => sum + bytes, 0n)
    const bytes = memoryDemand(domain).guest - inPages
    const requested = quantityValue(text) ?? 0n
    if (requested <= 0n) yield invalid(field, text, 'must be more than 0')
    else if (requested >= bytes) {
      const what = inPages === 0n ? 'the memory of the guest' : 'the memory of the guest that is not in huge pages'
      yield invalid(field, text, `must be less than ${what}, ${bytes} bytes`)
    }
  },
  example: { breaks: vm('1Gi'), holds: vm('512Mi') },
}

import { hugePageDemand } from '../../api/huge-pages.ts'
import { memoryDemand } from '../../api/launcher-memory.ts'
import { quantityValue } from '../../api/quantity.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { forbidden, invalid } from './finding.ts'
import type { Rule } from './rule.ts'

const field = 'spec.memoryRequest'

const vm = (memoryRequest: string): VirtualMachineSpec => ({
  domain: { memory: { unit: 'GiB', value: 1 } },
  memoryRequest,
})

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
    if (domain.memoryBacking?.locked !== undefined) {
      yield forbidden(field, text, 'must not be set with memoryBacking.locked, which allocates all memory at once')
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

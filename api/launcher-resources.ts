import type { Domain } from './domain/domain.ts'
import { integerOf } from './domain/scalar-value.ts'
import { memoryDemand } from './launcher-memory.ts'

/** A tenth of a CPU for each virtual one: guests idle most of the time, and the scheduler counts requests, not use. */
const cpuMillisPerVcpu = 100n

/** What a device plugin offers where there is a /dev/kvm. */
export const kvmResource = 'devices.virtset.io/kvm'

/** Of a container, as Kubernetes has them: quantities by the names of resources. */
export interface Resources {
  readonly requests: Readonly<Record<string, string>>
  readonly limits: Readonly<Record<string, string>>
}

/**
 * The resources of the only container of a VM's launcher pod: what the scheduler and a namespace's quotas count. The
 * memory limit is the request, since a guest that has touched a page never gives it back. The CPU has no limit.
 */
export function launcherResources(domain: Domain): Resources {
  const { guest, qemu, launcher } = memoryDemand(domain)
  const cpu = `${(integerOf(domain.vcpu?.value) ?? 1n) * cpuMillisPerVcpu}m`
  // Extended resources need a limit equal to the request.
  const limits = { memory: `${guest + qemu + launcher}`, ...(domain.type === 'kvm' ? { [kvmResource]: '1' } : {}) }
  return { requests: { cpu, ...limits }, limits }
}

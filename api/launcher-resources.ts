import type { Domain } from './domain/domain.ts'
import { integerOf } from './domain/scalar-value.ts'
import { memoryDemand } from './launcher-memory.ts'

/**
 * A tenth of a CPU for each virtual CPU: guests idle most of the time, and the scheduler counts requests, not usage.
 */
const cpuMillisPerVcpu = 100n

/** The resource of a device plugin on nodes that have /dev/kvm. */
export const kvmResource = 'devices.virtset.io/kvm'

/** The resources of a container in Kubernetes' form: quantity by resource name. */
export interface Resources {
  readonly requests: Readonly<Record<string, string>>
  readonly limits: Readonly<Record<string, string>>
}

/**
 * The resources of the only container of a VM's launcher pod, which the scheduler and the quotas of the namespace
 * count. The memory limit equals the request, because a guest never returns a page that it has touched. The CPU has no
 * limit.
 */
export function launcherResources(domain: Domain): Resources {
  const { guest, qemu, launcher } = memoryDemand(domain)
  const cpu = `${(integerOf(domain.vcpu?.value) ?? 1n) * cpuMillisPerVcpu}m`
  // Extended resources need a limit equal to the request.
  const limits = { memory: `${guest + qemu + launcher}`, ...(domain.type === 'kvm' ? { [kvmResource]: '1' } : {}) }
  return { requests: { cpu, ...limits }, limits }
}

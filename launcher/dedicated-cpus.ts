import { readFile } from 'node:fs/promises'
import { numbersOf } from '../api/domain/cpuset.ts'
import type { Domain } from '../api/domain/domain.ts'
import { integerOf } from '../api/domain/scalar-value.ts'
import { Refused } from './refused.ts'

/** The CPUs that the kubelet lets this pod use, in the form `0-1,4`. In all versions of cgroups. */
export async function readAllowedCpus(): Promise<string> {
  const status = await readFile('/proc/self/status', 'utf8')
  return /^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1] ?? ''
}

/**
 * The domain with each virtual CPU on one CPU of the pod, and QEMU's other threads on all of them.
 * @param allowed the CPUs that the pod can use
 * @throws Refused StartFailed if these are not the CPUs that the pod requested: then other pods use them, too
 */
export function pinToDedicatedCpus(domain: Domain, allowed: string): Domain {
  const cpus = numbersOf(allowed)
  const count = Number(integerOf(domain.vcpu?.value) ?? 1n)
  if (cpus.length !== count) {
    const message =
      `spec.dedicatedCPUs: the pod requested ${count} CPUs and can use ${cpus.length} (${allowed}), so they are not its own; ` +
      'the kubelet of the node needs the CPU manager policy static'
    throw new Refused('StartFailed', message)
  }
  const vcpupins = cpus.map((cpu, vcpu) => ({ vcpu, cpuset: `${cpu}` }))
  return { ...domain, cputune: { ...domain.cputune, vcpupins, emulatorpin: { cpuset: allowed } } }
}

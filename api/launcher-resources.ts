import { canonical } from './domain/canonical.ts'
import type { Domain } from './domain/domain.ts'
import { integerOf } from './domain/scalar-value.ts'

const mebibyte = 1024n * 1024n

/** Node and libvirtd in the launcher's pod: the goal that the start bench checks is 90 MiB. */
const launcherBytes = 90n * mebibyte
/** QEMU 10 without its guest: code, device state, the block layer's buffers. */
const qemuBytes = 80n * mebibyte
/** Stacks and the state of emulation, per virtual CPU. */
const vcpuBytes = 8n * mebibyte
/** The frame buffer that QEMU keeps in its own memory. */
const videoBytes = 32n * mebibyte
/** The host's page tables: 8 bytes for each page of 4 KiB. */
const pageTableShare = 512n

/** What a VM wants of its node. */
export interface Demand {
  readonly memoryBytes: bigint
  /** In thousandths of a CPU. */
  readonly cpuMillis: bigint
}

/** A tenth of a CPU for each virtual one: guests idle most of the time, and the scheduler counts requests, not use. */
const cpuMillisPerVcpu = 100n

/**
 * Guest memory and what is needed around it. A request, not a limit: the kernel ends a process for being over its limit, and the figures
 * above are averages.
 */
export function demandOf(domain: Domain): Demand {
  const { memory, maxMemory, vcpu, devices } = canonical(domain)
  const guestBytes = (integerOf(memory?.value ?? maxMemory?.value ?? 0) ?? 0n) * 1024n
  const vcpus = integerOf(vcpu?.value ?? 1) ?? 1n
  const video = devices && 'videos' in devices ? videoBytes : 0n
  const around = launcherBytes + qemuBytes + vcpus * vcpuBytes + video + guestBytes / pageTableShare
  return { memoryBytes: guestBytes + around, cpuMillis: vcpus * cpuMillisPerVcpu }
}

/** What a device plugin offers where there is a /dev/kvm. */
export const kvmResource = 'devices.virtset.io/kvm'

/** Of a container, as Kubernetes has them: quantities by the names of resources. */
export interface Resources {
  readonly requests: Readonly<Record<string, string>>
  readonly limits?: Readonly<Record<string, string>>
}

/** What the only container of a VM's launcher pod asks for: what a namespace's quotas and limits count. */
export function launcherResources(domain: Domain): Resources {
  const { memoryBytes, cpuMillis } = demandOf(domain)
  const requests = { cpu: `${cpuMillis}m`, memory: `${memoryBytes}` }
  if (domain.type !== 'kvm') return { requests }
  // Extended resources need a limit equal to the request.
  const devices = { [kvmResource]: '1' }
  return { requests: { ...requests, ...devices }, limits: devices }
}

import type { Domain } from '../api/domain/domain.ts'
import { hostKeys, reachOf, walk } from '../api/domain/walk.ts'
import type { HostDevice } from '../api/host-device.ts'
import type { Preset } from '../api/preset.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'

/**
 * The paths of what reaches the host in a VM or a preset: fields of the domain, and devices of the node as a whole. A
 * namespaced preset may have none. Writing a cluster preset that has some requires the verb `grant-host` on
 * clustervirtualmachinepresets.
 */
export const hostPaths = ({ domain = {}, hostDevices }: Partial<VirtualMachineSpec>): readonly string[] => [
  ...hostFields(domain),
  ...hostDevicePaths(hostDevices),
]

/** A device of the node is one place: its name decides which host device of the domain gets it. */
export const hostDevicePaths = (given: readonly HostDevice[] = []): readonly string[] =>
  given.map((_, index) => `spec.hostDevices[${index}]`)

function hostFields(domain: Domain): readonly string[] {
  const paths: string[] = []
  walk(
    domain,
    ({ path, field, value }) => {
      if (reachOf(field, value) !== 'host') return true
      paths.push(path)
      // Fields below a host-reaching element are part of it.
      return false
    },
    'spec.domain',
    hostKeys,
  )
  return paths
}

export const needsGrant = ({ kind, spec }: Preset): boolean =>
  kind === 'ClusterVirtualMachinePreset' && hostPaths(spec).length > 0

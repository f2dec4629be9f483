import type { Domain } from '../api/domain/domain.ts'
import { hostKeys, reachOf, walk } from '../api/domain/walk.ts'
import type { Preset } from '../api/preset.ts'

/**
 * The paths of what a preset injects that reaches the host. A namespaced preset may have none; to write a cluster
 * preset with some needs the verb `grant-host` on clustervirtualmachinepresets.
 */
export function hostPaths(domain: Domain): readonly string[] {
  const paths: string[] = []
  walk(
    domain,
    ({ path, field, value }) => {
      if (reachOf(field, value) !== 'host') return true
      paths.push(path)
      // What is below an element that reaches the host is part of it.
      return false
    },
    'spec.domain',
    hostKeys,
  )
  return paths
}

export const needsGrant = ({ kind, spec }: Preset): boolean =>
  kind === 'ClusterVirtualMachinePreset' && spec.domain !== undefined && hostPaths(spec.domain).length > 0

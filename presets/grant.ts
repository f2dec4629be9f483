import type { Domain } from '../api/domain/domain.ts'
import { hostKeys, reachOf, walk } from '../api/domain/walk.ts'
import type { Preset } from '../api/preset.ts'

/**
 * Returns the paths of the host-reaching fields in the domain of a preset. A namespaced preset may have none. Writing a
 * cluster preset that has some requires the verb `grant-host` on clustervirtualmachinepresets.
 */
export function hostPaths(domain: Domain): readonly string[] {
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
  kind === 'ClusterVirtualMachinePreset' && spec.domain !== undefined && hostPaths(spec.domain).length > 0

import { join } from 'node:path'

import { applyExamples } from './examples.ts'
import { install, modestRequests, networkPlugins } from './install.ts'
import type { Progress } from './progress.ts'
import type { Settings } from './settings.ts'
import { bringUp, type Cluster } from './up.ts'

/**
 * Starts the cluster, installs virtset and starts the examples.
 * @param forTests adds the spare node, cordoned, and storage with snapshots
 */
export async function bringUpWithVirtset(progress: Progress, settings: Settings, forTests = false): Promise<Cluster> {
  const cluster = await bringUp(progress, settings, forTests)
  const kubectl = cluster.kubectl.join(' ')
  await progress.step('virtset', `${kubectl} -n virtset-system describe pods`, (step) =>
    install(
      step,
      settings,
      cluster.kubectl,
      cluster.images,
      join(settings.state, 'install'),
      modestRequests,
      networkPlugins,
    ),
  )
  await progress.step('Example VMs', `${kubectl} describe vm,pods`, (step) =>
    applyExamples(step, settings, cluster.kubectl, cluster.images),
  )
  return cluster
}

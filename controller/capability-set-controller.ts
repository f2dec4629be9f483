import type { NodeCapabilitySet } from '../api/node-capability-set.ts'
import { apiVersion } from '../api/object.ts'
import type { WatchedInventory } from '../inventory/watched.ts'
import { isAlreadyExists, isInvalid, unlessNotFound } from '../runtime/api-error.ts'
import { nodeCapabilitySets } from '../runtime/resource.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'
import { never, planSets, type SetAction } from './capability-set-plan.ts'
import { createLoop } from './loop.ts'
import type { ControllerContext } from './loop.ts'

interface CapabilitySetControllerOptions extends ControllerContext {
  readonly inventory: Pick<WatchedInventory, 'profiles' | 'capabilitySets' | 'synced'>
  /** Whether profiles are to share capabilities. */
  readonly isSharing: boolean
}

/** Maintains the sets of capabilities that the profiles of equal nodes can name. */
interface CapabilitySetController {
  lead(): Promise<void>
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

/** Sets follow nodes by minutes, so passes do not follow each change of a profile. */
const everyMs = 60_000
/** All sets are one key: which are created depends on how many there are. */
const everything = '*'

export function startCapabilitySetController(options: CapabilitySetControllerOptions): CapabilitySetController {
  const { kube, log, clock, inventory, isSharing } = options
  let since = never

  const reconcile = async (): Promise<void> => {
    loop.addAfter(everything, everyMs)
    const observed = { isSharing, profiles: inventory.profiles(), sets: inventory.capabilitySets() }
    const planned = planSets(observed, since, clock.monotonic())
    since = planned.since
    for (const action of planned.actions) {
      loop.assertLeading()
      await act(action)
    }
  }

  const act = async (action: SetAction): Promise<void> => {
    const { name } = action
    switch (action.do) {
      case 'create': {
        const spec = { capabilities: action.capabilities }
        const set: NodeCapabilitySet = { apiVersion, kind: 'NodeCapabilitySet', metadata: { name }, spec }
        try {
          await kube.create(nodeCapabilitySets, set)
        } catch (error) {
          // The cache lags, or a limit was added since the profiles were stored.
          if (!isAlreadyExists(error) && !isInvalid(error)) throw error
          log.warn({ err: error, name }, 'a set of capabilities could not be created')
          return
        }
        break
      }
      case 'retire': {
        const body = { spec: { retired: action.retired } }
        await unlessNotFound(kube.patch(nodeCapabilitySets, { name }, { type: 'merge', body }))
        break
      }
      case 'delete':
        await unlessNotFound(kube.delete(nodeCapabilitySets, { name }))
    }
    log.info({ name, did: action.do }, 'changed the sets of capabilities')
  }

  const loop = createLoop<NodeCapabilitySet>({
    ...options,
    reconcile,
    keys: () => [everything],
    caches: [inventory],
    concurrency: 1,
  })
  return { lead: () => loop.lead(), statistics: () => loop.statistics(), stop: () => loop.stop() }
}

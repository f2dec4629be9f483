import { noNodes } from '../completion/nodes.ts'
import { createCandidates } from '../presets/candidates.ts'
import { systemClock } from '../runtime/clock.ts'
import { createArrivals } from './arrivals.ts'
import { noBudget } from './budget.ts'
import type { EngineCaches } from './caches.ts'
import { noMachines } from './machines.ts'

/** What is known where there is no cluster: nothing, and of namespaces their name. */
export const offlineCaches = (): EngineCaches => ({
  candidates: createCandidates(),
  quarantined: new Map(),
  arrivals: createArrivals(systemClock),
  machines: noMachines,
  budget: () => noBudget,
  namespace: (name) => ({ name, labels: { 'kubernetes.io/metadata.name': name } }),
  capabilities: () => noNodes,
  ageMs: () => 0,
})

import type { VirtualMachine } from '../api/virtual-machine.ts'
import { deepFreeze } from '../api/deep-freeze.ts'
import { apiVersion } from '../api/object.ts'
import { ownerReference, templateRevisionAnnotation } from '../api/template.ts'
import { planGroup, type ObservedGroup } from '../controller/group-plan.ts'
import type { Persisted } from '../runtime/resource.ts'

/**
 * The CPU time of one plan for a group whose VMs all run, in ms: the least of many, and the median. The controller
 * plans a group several times a second while its VMs change. Prints JSON.
 *
 *     npm run -s bench:group-plan
 */
const rounds = 200
const revision = 'revision'
const now = '2030-01-01T00:00:00Z'

const metadata = { namespace: 'default', name: 'group', uid: 'group', generation: 1, resourceVersion: '1' }

/** As an API server sends it: no text is shared with other VMs. */
function vm(index: number): Persisted<VirtualMachine> {
  const condition = (type: string) => ({ type, status: 'True', reason: type, message: '', lastTransitionTime: now })
  const object = {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: {
      namespace: metadata.namespace,
      name: `group-${index}`,
      uid: `uid-${index}`,
      resourceVersion: `${index}`,
      creationTimestamp: now,
      labels: { app: 'web' },
      annotations: { [templateRevisionAnnotation]: revision },
      ownerReferences: [ownerReference({ kind: 'VirtualMachineGroup', metadata })],
    },
    spec: { domain: {} },
    status: { phase: 'Running', conditions: ['Completed', 'LauncherReady', 'Ready'].map(condition) },
  }
  return deepFreeze(JSON.parse(JSON.stringify(object)) as Persisted<VirtualMachine>)
}

function measure(replicas: number) {
  const observed: ObservedGroup = {
    group: {
      apiVersion,
      kind: 'VirtualMachineGroup',
      metadata,
      spec: { replicas, selector: { matchLabels: { app: 'web' } } },
    } as ObservedGroup['group'],
    vms: Array.from({ length: replicas }, (_, index) => vm(index)),
    deleted: new Set(),
    rejected: new Set(),
    refused: new Set(),
    young: new Set(),
    scaledIn: new Set(),
    budget: undefined,
    revision,
    refusal: undefined,
    backOffMs: 0,
    now,
  }
  const spentMs = () => {
    const before = process.cpuUsage()
    planGroup(observed)
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000
  }
  const all = Array.from({ length: rounds }, spentMs).toSorted((left, right) => left - right)
  return { replicas, leastMs: all[0], medianMs: all[rounds / 2] }
}

console.log(JSON.stringify([100, 1000, 10_000].map(measure), undefined, 2))

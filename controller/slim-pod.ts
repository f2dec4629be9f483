import type { Persisted } from '../runtime/resource.ts'
import { disruptionTarget } from './disruption.ts'
import { vmNameLabel, vmUidLabel, vmUidVariable } from './launcher-pod.ts'
import type { Container, Pod, PodStatus } from './pod.ts'

const nothing: readonly never[] = Object.freeze([])
const none = Object.freeze({})

/** Whether the whole pod is there. The API server sets the policy in every pod. */
export const isWhole = ({ spec }: Pod): boolean => spec.restartPolicy !== undefined

/**
 * What the controller reads of a launcher pod whose VM it has handed over: which VM it belongs to, on which node it is,
 * and how it ends. Only before that, the rest is compared with the pod that the controller would create.
 */
export function slimPod({ apiVersion, kind, metadata, spec, status = {} }: Persisted<Pod>): Persisted<Pod> {
  return {
    ...(apiVersion === undefined ? {} : { apiVersion }),
    ...(kind === undefined ? {} : { kind }),
    metadata: slimMetadata(metadata),
    spec: {
      ...(spec.nodeName === undefined ? {} : { nodeName: spec.nodeName }),
      containers: spec.containers.map(slimContainer),
      volumes: nothing,
    },
    status: slimStatus(status),
  }
}

function slimMetadata(metadata: Persisted<Pod>['metadata']): Persisted<Pod>['metadata'] {
  const { name, namespace, uid, resourceVersion, deletionTimestamp, deletionGracePeriodSeconds: grace } = metadata
  const { [vmUidLabel]: vmUid, [vmNameLabel]: vmName } = metadata.labels ?? {}
  // The owner of nearly every launcher pod is the VM that its label names, too.
  const owners = metadata.ownerReferences?.filter((owner) => owner.uid !== vmUid) ?? []
  return {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    uid,
    resourceVersion,
    labels: {
      ...(vmUid === undefined ? {} : { [vmUidLabel]: vmUid }),
      ...(vmName === undefined ? {} : { [vmNameLabel]: vmName }),
    },
    ...(owners.length === 0 ? {} : { ownerReferences: owners }),
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    ...(grace === undefined ? {} : { deletionGracePeriodSeconds: grace }),
  }
}

function slimContainer({ name, env = [], resources }: Container): Container {
  const own = env.filter((variable) => variable.name === vmUidVariable)
  const memory = resources.limits['memory']
  return {
    name,
    ...(own.length === 0 ? {} : { env: own }),
    resources: { requests: none, limits: memory === undefined ? none : { memory } },
    volumeMounts: nothing,
    volumeDevices: nothing,
  }
}

function slimStatus({ phase, reason, message, conditions, containerStatuses }: PodStatus): PodStatus {
  const read = conditions?.filter(
    ({ type, status }) => type === disruptionTarget || (type === 'PodScheduled' && status === 'False'),
  )
  const troubled = containerStatuses?.filter(({ state }) => (state?.waiting ?? state?.terminated) !== undefined)
  return {
    ...(phase === undefined ? {} : { phase }),
    ...(reason === undefined ? {} : { reason }),
    ...(message === undefined ? {} : { message }),
    ...(read === undefined || read.length === 0 ? {} : { conditions: read }),
    ...(troubled === undefined || troubled.length === 0
      ? {}
      : {
          containerStatuses: troubled.map(({ name, state }) => ({ name, ...(state === undefined ? {} : { state }) })),
        }),
  }
}

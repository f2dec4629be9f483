import { group } from '../api/object.ts'
import { shorten } from '../api/shorten.ts'
import { disruptionTarget } from '../runtime/disruption.ts'
import { hasReadiness, slimProbes } from '../runtime/probe.ts'
import { firstOwners, identity, resource, type Persisted } from '../runtime/resource.ts'
import { pick, slimAnnotations, slimLabels, slimMetadata } from '../runtime/slim.ts'
import { vmNameLabel, vmUidLabel, vmUidVariable } from './launcher-pod.ts'
import { attachedToLabel } from './attachment-pod.ts'
import { networksAnnotation } from './network-failure.ts'
import { labelsAnnotation, maxCopied } from './pod-labels.ts'
import { pods, type Container, type ContainerState, type ContainerStatus, type Pod } from './pod.ts'
import type { PodCondition, PodStatus } from './pod.ts'

/** A kubelet can write a megabyte of these. A pod has one of each container, and few conditions. */
const firstOfStatus = [64, true] as const

/** Pods without the labels, annotations and owners that others add. */
export const readPods = resource<Pod>({
  ...pods,
  read: {
    apiVersion: true,
    kind: true,
    metadata: {
      ...identity,
      deletionTimestamp: true,
      deletionGracePeriodSeconds: true,
      labels: { [vmUidLabel]: true, [vmNameLabel]: true, [attachedToLabel]: true },
      annotations: { [labelsAnnotation]: true, [networksAnnotation]: true },
      ownerReferences: firstOwners,
    },
    spec: true,
    status: {
      phase: true,
      reason: true,
      message: true,
      podIP: true,
      conditions: firstOfStatus,
      containerStatuses: firstOfStatus,
    },
  },
})

/** Characters of JSON of a pod's spec. A launcher pod has 3,000; users can add tolerations to it. */
const maxSpec = 32 * 1024
/** 16 networks with the longest names have 9,000 characters. Users can change the annotation. */
const maxNetworks = 16 * 1024

/** Characters of a text in a status. Kubelets and other schedulers can write a megabyte; messages of a VM are shorter. */
const maxText = 4096
/** No longer than the reasons in a status of a VM. */
const maxReason = 253

const nothing: readonly never[] = Object.freeze([])
const none = Object.freeze({})

/** Whether the whole pod is there. The API server sets the policy in every pod. */
export const isWhole = ({ spec }: Pod): boolean => spec.restartPolicy !== undefined

/**
 * What the controller reads of a launcher pod whose VM it has handed over: which VM it belongs to, on which node it is,
 * and how it ends. Only before that, the rest is compared with the pod that the controller would create.
 */
export function slimPod(pod: Persisted<Pod>): Persisted<Pod> {
  const { metadata, spec, status = {} } = pod
  return {
    ...pick(pod, 'apiVersion', 'kind'),
    metadata: slimPodMetadata(metadata),
    spec: {
      ...(spec.nodeName === undefined ? {} : { nodeName: spec.nodeName }),
      containers: spec.containers.map(slimContainer),
      volumes: nothing,
    },
    status: slimStatus(status, isProbed(pod)),
  }
}

/** The same of a pod whose VM can still take it, with its spec and its networks. */
export function slimStartingPod(pod: Persisted<Pod>): Persisted<Pod> {
  const networks = pod.metadata.annotations?.[networksAnnotation]
  const slim =
    networks === undefined || networks.length > maxNetworks ? slimPod(pod) : withNetworks(slimPod(pod), networks)
  return JSON.stringify(pod.spec).length > maxSpec ? slim : { ...slim, spec: pod.spec }
}

const withNetworks = (pod: Persisted<Pod>, networks: string): Persisted<Pod> => ({
  ...pod,
  metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, [networksAnnotation]: networks } },
})

function slimPodMetadata(metadata: Persisted<Pod>['metadata']): Persisted<Pod>['metadata'] {
  const vmUid = metadata.labels?.[vmUidLabel]
  // The owner of nearly every launcher pod is the VM that its label names, too. Users can add owners of other kinds.
  const owners = (metadata.ownerReferences ?? []).filter(
    ({ apiVersion, kind, uid }) => uid !== vmUid && kind === 'VirtualMachine' && apiVersion.startsWith(`${group}/`),
  )
  return {
    ...slimMetadata(metadata, 'deletionTimestamp', 'deletionGracePeriodSeconds'),
    ...slimLabels(metadata, vmUidLabel, vmNameLabel),
    ...slimAnnotations(metadata, { [labelsAnnotation]: maxCopied }),
    ...(owners.length === 0 ? {} : { ownerReferences: owners }),
  }
}

/**
 * What the controller reads of a pod that serves a claim, and how it is mounted, by which a failure is explained. Users
 * can add tolerations to its spec and change its image.
 */
export function slimAttachment({ metadata, spec, status = {}, ...pod }: Persisted<Pod>): Persisted<Pod> {
  const { nodeName } = spec
  const mounts = spec.containers.map(({ name, volumeMounts }) => ({ ...withoutSpec, name, volumeMounts }))
  const scheduled = status.conditions?.filter(({ type }) => type === 'PodScheduled').map(withShortText)
  return {
    ...pick(pod, 'apiVersion', 'kind'),
    metadata: {
      ...slimMetadata(metadata, 'deletionTimestamp'),
      ...slimLabels(metadata, attachedToLabel),
    },
    spec: {
      ...(nodeName === undefined ? {} : { nodeName }),
      containers: JSON.stringify(mounts).length > maxSpec ? nothing : mounts,
      volumes: nothing,
    },
    status: {
      ...withShortText(pick(status, 'phase', 'reason', 'message')),
      ...(scheduled === undefined ? {} : { conditions: scheduled }),
      ...(status.containerStatuses === undefined
        ? {}
        : {
            containerStatuses: status.containerStatuses.slice(0, 1).map(({ name, state, lastState }) => ({
              name,
              ...(state === undefined ? {} : { state: slimState(state) }),
              ...(lastState === undefined ? {} : { lastState: slimState(lastState) }),
            })),
          }),
    },
  }
}

const withoutSpec = { resources: { requests: none, limits: none }, volumeMounts: nothing, volumeDevices: nothing }

function slimContainer(container: Container): Container {
  const { name, env = [], resources } = container
  const own = env.filter((variable) => variable.name === vmUidVariable)
  const memory = resources.limits['memory']
  return {
    name,
    ...(own.length === 0 ? {} : { env: own }),
    ...slimProbes(container),
    resources: { requests: none, limits: memory === undefined ? none : { memory } },
    volumeMounts: nothing,
    volumeDevices: nothing,
  }
}

const isProbed = ({ spec }: Pod): boolean => spec.containers.some(hasReadiness)

function slimStatus(status: PodStatus, hasProbe: boolean): PodStatus {
  const { conditions, containerStatuses } = status
  const isRead = ({ type, status: value }: PodCondition) =>
    type === disruptionTarget || (hasProbe && type === 'Ready') || (type === 'PodScheduled' && value === 'False')
  const read = conditions?.filter(isRead).map(withShortText)
  const containers = (containerStatuses ?? [])
    .map((one) => slimContainerStatus(one, hasProbe))
    .filter(({ state, started }) => state !== undefined || started !== undefined)
  return {
    ...withShortText(pick(status, 'phase', 'reason', 'message')),
    ...(read === undefined || read.length === 0 ? {} : { conditions: read }),
    ...(containers.length === 0 ? {} : { containerStatuses: containers }),
  }
}

const slimContainerStatus = ({ name, state, started }: ContainerStatus, hasProbe: boolean): ContainerStatus => ({
  name,
  ...(state === undefined || (state.waiting ?? state.terminated) === undefined ? {} : { state: slimState(state) }),
  ...(hasProbe && started === false ? { started } : {}),
})

const slimState = ({ waiting, terminated }: ContainerState): ContainerState => ({
  ...(waiting === undefined ? {} : { waiting: withShortText(waiting) }),
  ...(terminated === undefined ? {} : { terminated: withShortText(terminated) }),
})

/** The same object if its texts are short, as nearly all are. */
function withShortText<T extends { readonly reason?: string; readonly message?: string }>(of: T): T {
  const { reason, message } = of
  const isLong = (text: string | undefined, most: number): text is string => text !== undefined && text.length > most
  if (!isLong(reason, maxReason) && !isLong(message, maxText)) return of
  return {
    ...of,
    ...(isLong(reason, maxReason) ? { reason: shorten(reason, maxReason) } : {}),
    ...(isLong(message, maxText) ? { message: shorten(message, maxText) } : {}),
  }
}

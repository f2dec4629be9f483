import { claimOwnerLabels } from '../api/claim-template.ts'
import { filledAnnotation } from '../api/claim-volume.ts'
import type { Resources } from '../api/launcher-resources.ts'
import type { Affinity } from '../api/affinity.ts'
import type { Toleration } from '../api/placement.ts'
import type { Probes } from '../api/probe.ts'
import type { ResourceClaim } from '../api/resource-claim.ts'
import type { ObjectMeta } from '../api/object.ts'
import { firstOwners, identity, resource } from '../runtime/resource.ts'

/**
 * The part of Kubernetes' Pod that we write or read. Optional fields may be absent from a cached pod: see `slimPod`.
 */
export interface Pod {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
  readonly spec: PodSpec
  readonly status?: PodStatus
}

interface PodSpec {
  readonly nodeName?: string
  readonly restartPolicy?: 'Never' | 'Always'
  readonly automountServiceAccountToken?: boolean
  readonly enableServiceLinks?: boolean
  readonly terminationGracePeriodSeconds?: number
  readonly securityContext?: object
  readonly containers: readonly Container[]
  readonly volumes: readonly ({ readonly name: string } & Readonly<Record<string, unknown>>)[]
  readonly nodeSelector?: { readonly [key: string]: string }
  readonly affinity?: Affinity
  readonly tolerations?: readonly Toleration[]
  readonly priorityClassName?: string
  readonly imagePullSecrets?: readonly { readonly name: string }[]
  readonly resourceClaims?: readonly ResourceClaim[]
}

export interface Container extends Probes {
  readonly name: string
  readonly image?: string
  readonly command?: readonly string[]
  readonly imagePullPolicy?: 'IfNotPresent'
  /** The end of the log becomes the termination message of a container that wrote none. */
  readonly terminationMessagePolicy?: 'FallbackToLogsOnError'
  readonly ports?: readonly {
    readonly name: string
    readonly containerPort: number
    readonly protocol: 'TCP' | 'UDP'
  }[]
  readonly env?: readonly { readonly name: string; readonly value?: string }[]
  readonly resources: Resources
  readonly securityContext?: object
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[]
  readonly volumeDevices: readonly { readonly name: string; readonly devicePath: string }[]
}

export interface PodStatus {
  readonly phase?: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown'
  /** e.g. `Evicted`, `NodeLost`. */
  readonly reason?: string
  readonly message?: string
  readonly podIP?: string
  readonly conditions?: readonly PodCondition[]
  readonly containerStatuses?: readonly ContainerStatus[]
}

export interface PodCondition {
  readonly type: string
  readonly status: 'True' | 'False' | 'Unknown'
  readonly reason?: string
  readonly message?: string
  readonly lastTransitionTime?: string
}

export interface ContainerStatus {
  readonly name: string
  /** Whether the startup probe, if there is one, has succeeded; false while the container does not run. */
  readonly started?: boolean
  readonly state?: ContainerState
  /** Of the run before. */
  readonly lastState?: ContainerState
}

export interface ContainerState {
  readonly waiting?: { readonly reason?: string; readonly message?: string }
  readonly terminated?: {
    readonly exitCode: number
    readonly signal?: number
    readonly reason?: string
    readonly message?: string
  }
}

export const pods = resource<Pod>({ group: '', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true })

export interface Claim {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
  readonly spec?: {
    readonly volumeMode?: 'Filesystem' | 'Block'
    readonly resources?: { readonly requests?: { readonly storage?: string } }
    readonly dataSource?: { readonly apiGroup?: string; readonly kind?: string; readonly name?: string }
    /** Set once it has a volume. */
    readonly volumeName?: string
  }
  readonly status?: { readonly capacity?: { readonly storage?: string } }
}

export const persistentVolumeClaims = resource<Claim>({
  group: '',
  version: 'v1',
  plural: 'persistentvolumeclaims',
  kind: 'PersistentVolumeClaim',
  namespaced: true,
  read: {
    metadata: {
      ...identity,
      creationTimestamp: true,
      deletionTimestamp: true,
      labels: Object.fromEntries(claimOwnerLabels.map((label) => [label, true])),
      annotations: { [filledAnnotation]: true },
      ownerReferences: firstOwners,
    },
    spec: {
      volumeMode: true,
      resources: { requests: { storage: true } },
      dataSource: { apiGroup: true, kind: true, name: true },
      volumeName: true,
    },
    status: { capacity: { storage: true } },
  },
})

import { basename } from 'node:path'
import { LRUCache } from 'lru-cache'
import type { ObjectMeta } from '../api/object.ts'
import { firstTexts, shorten } from '../api/shorten.ts'
import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { pageSize } from '../runtime/pages.ts'
import { resource, type Persisted } from '../runtime/resource.ts'
import type { Pod } from './pod.ts'

/** The part of an Event about a pod that is read. */
export interface PodEvent {
  readonly metadata: ObjectMeta
  readonly reason?: string
  readonly message?: string
  /** When it occurred last. Absent if it was reported as a series. */
  readonly lastTimestamp?: string | null
}

const podEvents = resource<PodEvent>({
  group: '',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
})

export const failedMount = 'FailedMount'
/** Whether a pod has volumes that can be missing: claims, Secrets, ConfigMaps. */
export const hasMissable = ({ spec }: Pod): boolean =>
  spec.volumes.some((volume) => 'persistentVolumeClaim' in volume || 'projected' in volume)

const failures: readonly (string | undefined)[] = [failedMount, 'FailedAttachVolume', 'FailedMapVolume']

/** The kubelet's summary of other events, which have the causes. */
const summary = 'Unable to attach or mount volumes'
const mostVolumes = 5

/** The kubelet's own messages are shorter. */
const longestMessage = 1024
/** Whatever else changes of a VM, its pod's events are not read more often. */
const freshMs = 4000
const mostPods = 1000

/**
 * Reads why volumes of a pod cannot be mounted. Users can write any number of events about a pod, of 1.5 MiB each: one
 * page of them is read, one event at a time.
 */
export function createMountFailures(
  kube: Pick<KubeClient, 'listEach'>,
  clock: Pick<Clock, 'monotonic'>,
): (pod: Persisted<Pod>) => Promise<string | undefined> {
  const known = new LRUCache<string, { readonly failure: string | undefined }>({
    max: mostPods,
    ttl: freshMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  })
  return async (pod) => {
    const { namespace = 'default', uid } = pod.metadata
    const before = known.get(uid)
    if (before !== undefined) return before.failure
    const fieldSelector = `involvedObject.kind=Pod,involvedObject.uid=${uid}`
    const events: PodEvent[] = []
    await kube.listEach(podEvents, { namespace, fieldSelector, limit: pageSize }, (event) => {
      const { metadata, reason = '', message = '', lastTimestamp = null } = event
      const { name, creationTimestamp } = metadata
      const slim = { name, ...(creationTimestamp === undefined ? {} : { creationTimestamp }) }
      events.push({ metadata: slim, reason, message: shorten(message, longestMessage), lastTimestamp })
    })
    const failure = mountFailure(events, pod)
    known.set(uid, { failure })
    return failure
  }
}

/**
 * Why the kubelet cannot mount the volumes of a pod, which only its events state. Undefined if no event does, or if the
 * pod has made progress since.
 * @param events of the pod, in any order
 */
export function mountFailure(events: readonly PodEvent[], pod: Pod): string | undefined {
  const latest = events.reduce((last, event) => (timeOf(event) > last ? timeOf(event) : last), '')
  const failed = events.filter(({ reason }) => failures.includes(reason)).toSorted(byTime)
  if (failed.length === 0 || timeOf(failed.at(-1)) < latest) return undefined
  const causes = failed.filter(({ message = '' }) => !message.startsWith(summary))
  // The last event of each volume: the causes of one can change.
  const texts = new Map((causes.length > 0 ? causes : failed).map(({ message = '' }) => [volumeOf(message), message]))
  return firstTexts([...texts.values()], mostVolumes, (message) => explain(message, pod))
}

/** In UTC and in whole seconds, so that times compare as texts. */
const timeOf = (event: PodEvent | undefined): string => event?.lastTimestamp ?? event?.metadata.creationTimestamp ?? ''

const byTime = (a: PodEvent, b: PodEvent): number => (timeOf(a) < timeOf(b) ? -1 : timeOf(a) > timeOf(b) ? 1 : 0)

const ofVolume = /^(?:MountVolume|MapVolume)\.\w+ failed for volume "([^"]+)" : /

const volumeOf = (message: string): string => ofVolume.exec(message)?.[1] ?? ''

/** With the name of the VM's volume, which is in its path, instead of that of the pod's. */
function explain(message: string, { spec }: Pod): string {
  const volume = volumeOf(message)
  const mount = spec.containers.flatMap(({ volumeMounts }) => volumeMounts).find(({ name }) => name === volume)
  if (mount === undefined) return message
  return message.replace(ofVolume, `volume ${JSON.stringify(basename(mount.mountPath))}: `)
}

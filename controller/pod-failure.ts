import { LRUCache } from 'lru-cache'
import { shorten } from '../api/shorten.ts'
import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { pageSize } from '../runtime/pages.ts'
import type { Persisted } from '../runtime/resource.ts'
import { hasImages, imagePull, pullingImage } from './image-pull.ts'
import { failedMount, hasMissable, mountFailure } from './mount-failure.ts'
import { failedSandbox, hasNetworks, networkFailure } from './network-failure.ts'
import { podEvents, type PodEvent } from './pod-event.ts'
import type { Pod } from './pod.ts'

/** Why the kubelet cannot create the container of a pod, or has not yet, which only its events state. */
export interface PodFailure {
  readonly reason: string
  readonly message: string
}

const kinds = [
  { reason: failedMount, explain: mountFailure },
  { reason: failedSandbox, explain: networkFailure },
  { reason: pullingImage, explain: imagePull },
] as const

/** Whether a pod needs what can be missing, or slow. */
export const canFail = (pod: Pod): boolean => hasMissable(pod) || hasNetworks(pod) || hasImages(pod)

/** The kubelet's own messages are shorter. */
const longestMessage = 1024
/** A page of the longest events of a kubelet has 100 KB. */
const mostBytes = 512 * 1024
/** Whatever else changes of a VM, its pod's events are not read more often. */
const freshMs = 4000
const mostPods = 1000

/**
 * Reads why volumes of a pod cannot be mounted, or its networks not be created, or which images are still being pulled.
 * Users can write any number of events about a pod, of 1.5 MiB each: one page of them is read, one event at a time, and
 * no more than half a MiB.
 */
export function createPodFailures(
  kube: Pick<KubeClient, 'listEach'>,
  clock: Pick<Clock, 'monotonic'>,
): (pod: Persisted<Pod>) => Promise<PodFailure | undefined> {
  const known = new LRUCache<string, { readonly failure: PodFailure | undefined }>({
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
    await kube.listEach(podEvents, { namespace, fieldSelector, limit: pageSize, mostBytes }, (event) => {
      const { metadata, reason = '', message = '', lastTimestamp = null } = event
      const { name, creationTimestamp } = metadata
      const slim = { name, ...(creationTimestamp === undefined ? {} : { creationTimestamp }) }
      events.push({ metadata: slim, reason, message: shorten(message, longestMessage), lastTimestamp })
    })
    const failure = failureOf(events, pod)
    known.set(uid, { failure })
    return failure
  }
}

function failureOf(events: readonly PodEvent[], pod: Pod): PodFailure | undefined {
  for (const { reason, explain } of kinds) {
    const message = explain(events, pod)
    if (message !== undefined) return { reason, message }
  }
  return undefined
}

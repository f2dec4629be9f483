import { basename } from 'node:path'
import { firstTexts } from '../api/shorten.ts'
import { unresolved, type PodEvent } from './pod-event.ts'
import type { Pod } from './pod.ts'

export const failedMount = 'FailedMount'
/** Whether a pod has volumes that can be missing: claims, Secrets, ConfigMaps. */
export const hasMissable = ({ spec }: Pod): boolean =>
  spec.volumes.some((volume) => 'persistentVolumeClaim' in volume || 'projected' in volume)

const failures = [failedMount, 'FailedAttachVolume', 'FailedMapVolume']

/** The kubelet's summary of other events, which have the causes. */
const summary = 'Unable to attach or mount volumes'
const mostVolumes = 5

/**
 * Why the kubelet cannot mount the volumes of a pod, which only its events state. Undefined if no event does, or if the
 * pod has made progress since.
 * @param events of the pod, in any order
 */
export function mountFailure(events: readonly PodEvent[], pod: Pod): string | undefined {
  const failed = unresolved(events, failures)
  if (failed.length === 0) return undefined
  const causes = failed.filter(({ message = '' }) => !message.startsWith(summary))
  // The last event of each volume: the causes of one can change.
  const texts = new Map((causes.length > 0 ? causes : failed).map(({ message = '' }) => [volumeOf(message), message]))
  return firstTexts([...texts.values()], mostVolumes, (message) => explain(message, pod))
}

const ofVolume = /^(?:MountVolume|MapVolume)\.\w+ failed for volume "([^"]+)" : /

const volumeOf = (message: string): string => ofVolume.exec(message)?.[1] ?? ''

/** With the name of the VM's volume, which is in its path, instead of that of the pod's. */
function explain(message: string, { spec }: Pod): string {
  const volume = volumeOf(message)
  const mount = spec.containers.flatMap(({ volumeMounts }) => volumeMounts).find(({ name }) => name === volume)
  if (mount === undefined) return message
  return message.replace(ofVolume, `volume ${JSON.stringify(basename(mount.mountPath))}: `)
}

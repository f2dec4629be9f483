import { basename } from 'node:path'
import { firstTexts } from '../api/shorten.ts'
import { isRecord } from '../api/schema.ts'
import { isAbout } from './image-volume.ts'
import type { PodEvent } from './pod-event.ts'
import type { Pod } from './pod.ts'

export const pullingImage = 'PullingImage'

/** Whether a pod has images as volumes, which the kubelet pulls before it creates the container. */
export const hasImages = ({ spec }: Pod): boolean => spec.volumes.some((volume) => 'image' in volume)

const mostVolumes = 5

/**
 * Which images of a pod's volumes are being pulled, which only its events state, with the names that the volumes have
 * in the VM. Undefined if none is.
 * @param events of the pod, in any order
 */
export function imagePull(events: readonly PodEvent[], pod: Pod): string | undefined {
  const isStated = (reference: string, ...reasons: readonly string[]): boolean =>
    events.some(({ reason = '', message = '' }) => reasons.includes(reason) && isAbout(message, reference))
  const pulled = imagesOf(pod).filter(
    ({ reference }) => isStated(reference, 'Pulling') && !isStated(reference, 'Pulled', 'Failed'),
  )
  if (pulled.length === 0) return undefined
  return firstTexts(
    pulled,
    mostVolumes,
    ({ name, reference }) => `volume ${JSON.stringify(name)}: the image ${reference} is being pulled`,
  )
}

function imagesOf({ spec }: Pod): readonly { readonly name: string; readonly reference: string }[] {
  const mounts = spec.containers.flatMap(({ volumeMounts }) => volumeMounts)
  return spec.volumes.flatMap(({ name, ...volume }) => {
    const mount = mounts.find((one) => one.name === name)
    const image = volume['image']
    if (mount === undefined || !isRecord(image) || typeof image['reference'] !== 'string') return []
    return [{ name: basename(mount.mountPath), reference: image['reference'] }]
  })
}

import type { VirtualMachine } from '../api/virtual-machine.ts'
import { imageOf, type Volume } from '../api/volume.ts'

type Spec = Pick<VirtualMachine['spec'], 'volumes'>
interface ImageOfVolume {
  readonly name: string
  readonly reference: string
}

const imagesOf = ({ volumes = [] }: Spec): readonly ImageOfVolume[] =>
  volumes.flatMap((volume: Volume) => {
    const image = imageOf(volume)
    return image === undefined ? [] : [{ name: volume.name, reference: image.reference }]
  })

/**
 * The kubelet pulls the images of volumes before it creates the container, and reports their faults at the container.
 * Prepends the names of the volumes whose image the message is about.
 */
export function explainPull(message: string, spec: Spec, launcherImage: string): string {
  const images = imagesOf(spec)
  const named = images.filter(({ reference }) => isAbout(message, reference))
  const isOfVolume = /image volume/i.test(message) || message.includes('ImageVolumeMountFailed')
  const isUnclear = named.length === 0 && (isOfVolume || !isAbout(message, launcherImage))
  const about = isUnclear && images.length === 1 ? images : named
  if (about.length === 0) return message
  return `volume ${about.map(({ name }) => JSON.stringify(name)).join(', ')}: ${message}`
}

/** As the kubelet and the container runtime write it, which add the default registry, folder and tag. */
export const isAbout = (message: string, reference: string): boolean =>
  ['', 'docker.io/', 'docker.io/library/'].some((prefix) =>
    ['', ':latest'].some((tag) => message.includes(`"${prefix}${reference}${tag}"`)),
  )

/**
 * An API server without image volumes drops the unknown field and then reports that the volume has no kind. Replaces
 * that message with the cause.
 */
export function explainUnsupported(message: string, spec: Spec): string {
  const names = imagesOf(spec).map(({ name }) => JSON.stringify(name))
  if (names.length === 0 || !message.includes('must specify a volume type')) return message
  return `volume ${names.join(', ')}: this cluster has no image volumes, which require Kubernetes 1.35, or 1.33 with the feature gate ImageVolume; use a persistentVolumeClaim, or upgrade. The API server responded: ${message}`
}

import { isRecord } from '../api/schema.ts'
import { unresolved, type PodEvent } from './pod-event.ts'
import type { Pod } from './pod.ts'

/** From which Multus takes the networks of a pod beside its own. */
export const networksAnnotation = 'k8s.v1.cni.cncf.io/networks'

export const failedSandbox = 'FailedCreatePodSandBox'

/** Whether a pod has networks that can be missing. */
export const hasNetworks = ({ metadata }: Pod): boolean => metadata.annotations?.[networksAnnotation] !== undefined

/** That of the kubelet, and that of Multus, which is older in each attempt. */
const failures = [failedSandbox, 'NoNetworkFound']
/** Each attempt begins with them. */
const neutral = ['AddedInterface', 'SandboxChanged']

/**
 * Why the networks of a pod cannot be created, which only its events state. Undefined if no event does, or if the pod
 * has made progress since.
 * @param events of the pod, in any order
 */
export function networkFailure(events: readonly PodEvent[], pod: Pod): string | undefined {
  const failed = unresolved(events, failures, neutral)
  const { message } = failed.findLast(({ reason }) => reason === failedSandbox) ?? failed.at(-1) ?? {}
  return message === undefined ? undefined : explain(message, pod)
}

const missing = /cannot find a network-attachment-definition \(([^()]*)\) in namespace \(([^()]*)\)/
/** Multus names the network by the `name` of its configuration, as a rule that of the NetworkAttachmentDefinition. */
const notAdded = /error adding container to network "([^"]*)": (.*)/s
/** What precedes the words of the first CNI plugin, with an id of 64 digits. */
const toPlugin = /^.*? failed \(add\): /s

/** With the name of the network as the VM states it. */
function explain(message: string, pod: Pod): string {
  const [, name, namespace] = missing.exec(message) ?? []
  if (name !== undefined && namespace !== undefined) {
    const { namespace: ofPod } = pod.metadata
    const stated = namespace === ofPod ? name : `${namespace}/${name}`
    return `network "${stated}": the NetworkAttachmentDefinition "${name}" does not exist in namespace "${namespace}"`
  }
  const [, network, cause] = notAdded.exec(message) ?? []
  const words = (cause ?? message).replace(toPlugin, '')
  const stated = networksOf(pod).find((one) => one === network || one.endsWith(`/${network}`))
  return stated === undefined ? `the network of the pod: ${words}` : `network "${stated}": ${words}`
}

/** Only virtset writes the annotation, but others can change it. */
function networksOf({ metadata }: Pod): readonly string[] {
  const read = parsed(metadata.annotations?.[networksAnnotation] ?? '')
  if (!Array.isArray(read)) return []
  return read.flatMap((one: unknown) => {
    if (!isRecord(one) || typeof one['name'] !== 'string') return []
    const { name, namespace } = one
    return [typeof namespace !== 'string' || namespace === metadata.namespace ? name : `${namespace}/${name}`]
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

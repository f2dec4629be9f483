import { group, type ObjectMeta } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'
import { wholeUpTo } from '../runtime/partial-json.ts'
import { identity, resource } from '../runtime/resource.ts'
import { pods, type Pod } from './pod.ts'

/**
 * On a launcher pod: the labels of its VM that the controller has copied to it, in JSON. Null stands for a label that
 * another client has set, changed or removed on the pod: it stays as that client left it. Only the controller can write
 * the annotation (`virtset-launcher-pods`), since it decides what the controller removes. Pods of earlier versions do
 * not have it, and keep the labels of their creation.
 */
export const labelsAnnotation = 'virtset.io/labels'

/**
 * Characters. Labels of a VM have 16 KiB of keys and values (`labels-size`), which is less than 64 KiB of JSON, unless an
 * earlier version admitted them: beyond this, a pod keeps its labels.
 */
export const maxCopied = 64 * 1024

/** Users add labels to pods, as many as fit into a megabyte. */
export const labelledPods = resource<Pick<Pod, 'metadata'>>({
  ...pods,
  read: {
    metadata: { ...identity, labels: { [wholeUpTo]: maxCopied }, annotations: { [labelsAnnotation]: true } },
  },
})

/** Whether the pod has more labels than are read: it keeps them. */
export const areUnread = ({ labels }: Metadata): boolean => labels?.['#'] !== undefined

type Metadata = Pick<ObjectMeta, 'labels' | 'annotations'>
type Copied = ReadonlyMap<string, string | null>

/** The annotation, for a new pod, whose labels are all as its VM has them. */
export function copiedLabels(vm: Metadata): { readonly [annotation: string]: string } {
  const text = encode(userLabels(vm))
  return text.length > maxCopied ? {} : { [labelsAnnotation]: text }
}

/** Whether the labels of the VM have changed since they were copied to its pod. */
export function isRelabelled(vm: Metadata, pod: Metadata): boolean {
  const labels = userLabels(vm)
  if (encode(labels) === pod.annotations?.[labelsAnnotation]) return false
  const copied = copiedOf(pod)
  if (copied === undefined) return false
  const isCopied = ([key, value]: [string, string]) =>
    copied.has(key) && [value, null].includes(copied.get(key) ?? null)
  const isSame = [...labels].every(isCopied) && [...copied].every(([key, value]) => value === null || labels.has(key))
  return !isSame && encode(labels).length <= maxCopied
}

/** Metadata for a merge patch, in which null removes a label. */
export interface Relabelling {
  readonly labels: { readonly [key: string]: string | null }
  readonly annotations: { readonly [key: string]: string }
}

/**
 * What gives the pod the labels that its VM has now; undefined if it has them. Labels that another client has set on the
 * pod remain, whatever the VM states: a user who cannot write pods must not be able to change them. A pod with more
 * labels than are read keeps them.
 */
export function relabelling(vm: Metadata, pod: Metadata): Relabelling | undefined {
  const before = copiedOf(pod)
  if (before === undefined || areUnread(pod) || !isRelabelled(vm, pod)) return undefined
  const after = userLabels(vm)
  const found = new Map(Object.entries(pod.labels ?? {}))
  const isOwn = (key: string) =>
    before.has(key) ? found.has(key) && found.get(key) === before.get(key) : !found.has(key)
  const labels: [string, string | null][] = []
  for (const key of before.keys()) if (!after.has(key) && isOwn(key)) labels.push([key, null])
  for (const [key, value] of after) if (isOwn(key) && found.get(key) !== value) labels.push([key, value])
  // Without a record, a label that another client has removed would come back with the VM's next label of this name.
  const removed = [...before.keys()].filter((key) => !after.has(key) && !isOwn(key) && !found.has(key))
  const copied = new Map<string, string | null>([
    ...[...after].map(([key, value]) => [key, isOwn(key) ? value : null] as const),
    ...removed.map((key) => [key, null] as const),
  ])
  const record = encode(copied)
  return record.length > maxCopied
    ? undefined
    : { labels: Object.fromEntries(labels), annotations: { [labelsAnnotation]: record } }
}

/** Labels with virtset's own prefix identify pods to its processes and policies. A pod keeps those of its creation. */
const isReserved = (key: string): boolean => {
  const [prefix = ''] = key.split('/')
  return prefix === group || prefix.endsWith(`.${group}`)
}

const userLabels = ({ labels = {} }: Metadata): ReadonlyMap<string, string> =>
  new Map(Object.entries(labels).filter(([key]) => !isReserved(key)))

const encode = (labels: Copied): string => JSON.stringify(Object.fromEntries(labels))

function copiedOf({ annotations }: Metadata): Copied | undefined {
  const copied = parse(annotations?.[labelsAnnotation] ?? '')
  if (!isRecord(copied)) return undefined
  return new Map(Object.entries(copied).map(([key, value]) => [key, typeof value === 'string' ? value : null]))
}

/** Undefined for what the controller has not written. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

import { joinPath } from '../api/path.ts'
import { isRecord } from '../api/schema.ts'
import { firstWarnings } from './abridge.ts'
import type { CompiledPreset } from './compile.ts'
import type { Subject } from './kind.ts'
import type { RemovePath } from './remove-path.ts'
import type { Labels } from './selector.ts'

/**
 * The labels of an object that has a controller, such as a Pod of a ReplicaSet; undefined for others. With another
 * label, its controller would release the object and create the next, without end.
 */
export function ownedLabels({ metadata }: Subject): Labels | undefined {
  const { labels, ownerReferences }: { readonly labels?: unknown; readonly ownerReferences?: unknown } = metadata
  const isOwned =
    Array.isArray(ownerReferences) && ownerReferences.some((one) => isRecord(one) && one['controller'] === true)
  return isOwned && isRecord(labels) && Object.keys(labels).length > 0 ? (labels as Labels) : undefined
}

/** What a preset sets, without these labels. */
export function contentWithout(
  content: CompiledPreset['content'],
  labels: Labels | undefined,
): CompiledPreset['content'] {
  const { metadata } = content
  const stated = labelsOf(content)
  if (labels === undefined || !isRecord(metadata)) return content
  const others = Object.entries(stated).filter(([key]) => !Object.hasOwn(labels, key))
  if (others.length === Object.keys(stated).length) return content
  return { ...content, metadata: { ...metadata, labels: Object.fromEntries(others) } }
}

/** Whether a path in `remove` is that of one of these labels; none can be that of all. */
export function removesLabel({ steps }: RemovePath, labels: Labels | undefined): boolean {
  const [metadata, field, key] = steps.map((step) => (step.kind === 'key' ? step.key : undefined))
  return metadata === 'metadata' && field === 'labels' && Object.hasOwn(labels ?? {}, key ?? '')
}

/** Warnings about the labels that these presets would have changed. */
export function ownedWarnings(presets: readonly CompiledPreset[], labels: Labels | undefined): string[] {
  if (labels === undefined) return []
  const kept = presets.flatMap(({ id, content, removes }) => [
    ...Object.entries(labelsOf(content))
      .filter(([key, value]) => Object.hasOwn(labels, key) && labels[key] !== value)
      .map(([key]) => ({ id, path: joinPath('metadata.labels', key) })),
    ...removes.filter((path) => removesLabel(path, labels)).map(({ text }) => ({ id, path: text })),
  ])
  return firstWarnings(
    kept,
    ({ id, path }) => `preset "${id}" leaves ${path}: a controller finds the object by its labels`,
    (count) => `presets leave ${count} more labels of an object with a controller`,
  )
}

function labelsOf({ metadata }: CompiledPreset['content']): { readonly [key: string]: unknown } {
  const labels = isRecord(metadata) ? metadata['labels'] : undefined
  return isRecord(labels) ? labels : {}
}

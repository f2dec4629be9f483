import { isDeepStrictEqual } from 'node:util'
import type { KubeObject } from '../runtime/resource.ts'
import type { Change } from '../runtime/store.ts'

/** Users can change labels many times a second; a pass follows once for all changes of this time. */
export const gatherMs = 1000

/** Whether an update changed nothing of a cached object but labels and annotations. */
export function isLabelling(change: Change<KubeObject>): boolean {
  if (change.kind !== 'updated') return false
  const rest = ({ metadata, ...object }: KubeObject) => {
    const { labels: _labels, annotations: _annotations, resourceVersion: _version, ...others } = metadata
    return { ...object, metadata: others }
  }
  return isDeepStrictEqual(rest(change.object), rest(change.previous))
}

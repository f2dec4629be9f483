import type { ObjectMeta } from '../api/object.ts'
import type { KubeObject, Persisted } from '../runtime/resource.ts'

/** The API server writes both times, in UTC and with seconds, so the text has the order of the time. */
export const isOlder = ({ creationTimestamp: one }: ObjectMeta, { creationTimestamp: other }: ObjectMeta): boolean =>
  one !== undefined && other !== undefined && one < other

/** Whether an object comes before another of its kind: also of two that were created in one second, exactly one does. */
export const precedes = (
  { metadata: one }: Persisted<KubeObject>,
  { metadata: other }: Persisted<KubeObject>,
): boolean => isOlder(one, other) || (!isOlder(other, one) && one.uid < other.uid)

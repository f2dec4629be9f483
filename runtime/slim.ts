import type { ObjectMeta } from '../api/object.ts'
import type { KubeObject, Persisted } from './resource.ts'

/**
 * The members of an object with these keys, without those that are undefined. Caches use it to store only what some
 * code reads: users choose the size of most fields, so with a cache of whole objects, or of whole metadata, one tenant
 * could exhaust the memory of a process that all tenants need.
 */
export function pick<T extends object, Key extends keyof T>(of: T, ...keys: readonly Key[]): Pick<T, Key> {
  const picked: Partial<Pick<T, Key>> = {}
  for (const key of keys) if (Object.hasOwn(of, key) && of[key] !== undefined) picked[key] = of[key]
  return picked as Pick<T, Key>
}

type Metadata = Persisted<KubeObject>['metadata']
type Identity = 'name' | 'namespace' | 'uid' | 'resourceVersion'

/** The identity of an object and, of the rest of its metadata, only the fields named. */
export const slimMetadata = <Field extends Exclude<keyof ObjectMeta, Identity> = never>(
  metadata: Metadata,
  ...also: readonly Field[]
): Pick<Metadata, Identity | Field> =>
  pick<Metadata, Identity | Field>(metadata, 'name', 'namespace', 'uid', 'resourceVersion', ...also)

/** Only the labels with these keys, as a part of metadata; nothing if there are none. Their values are short. */
export const slimLabels = (metadata: ObjectMeta, ...keys: readonly string[]): Pick<ObjectMeta, 'labels'> =>
  unlessEmpty('labels', pick<StringMap, string>(metadata.labels ?? {}, ...keys))

/**
 * The same for annotations, each with the most characters that its value can have. Users can write a quarter of a MiB:
 * a longer value is left out, since it is none of ours.
 */
export function slimAnnotations(
  metadata: ObjectMeta,
  longest: { readonly [key: string]: number },
): Pick<ObjectMeta, 'annotations'> {
  const given: StringMap = metadata.annotations ?? {}
  const keys = Object.keys(longest).filter((key) => (given[key] ?? '').length <= (longest[key] ?? 0))
  return unlessEmpty('annotations', pick(given, ...keys))
}

interface StringMap {
  readonly [key: string]: string
}

const unlessEmpty = <Field extends 'annotations' | 'labels'>(
  field: Field,
  picked: StringMap,
): Pick<ObjectMeta, Field> =>
  pick<ObjectMeta, Field>(Object.keys(picked).length === 0 ? {} : { [field]: picked }, field)

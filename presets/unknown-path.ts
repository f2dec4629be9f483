import { isRecord } from '../api/schema.ts'
import { coversAll, leafPaths } from './cover.ts'
import type { Structure } from './structure.ts'

/**
 * Returns the paths of fields that can never apply: fields of a union that are not valid in the branch that the same
 * object selects, such as a time zone with `offset: utc`.
 */
export function unknownPaths(structure: Structure | undefined, value: unknown, path: string): readonly string[] {
  if (structure?.kind === 'list' && Array.isArray(value)) {
    return value.flatMap((item, index) => unknownPaths(structure.item, item, `${path}[${index}]`))
  }
  if (structure?.kind !== 'object' || !isRecord(value)) return []
  const { union } = structure
  const branch = union?.branchOf(value)
  const valid = branch === undefined ? undefined : union?.validIn(branch)
  const isUnknown = (key: string) =>
    valid !== undefined &&
    union?.owns(key) === true &&
    key !== union.by &&
    !coversAll(valid, leafPaths({ [key]: value[key] }))
  return Object.entries(value).flatMap(([key, member]) =>
    isUnknown(key) ? [`${path}.${key}`] : unknownPaths(structure.field(key), member, `${path}.${key}`),
  )
}

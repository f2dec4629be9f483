import { isDeeper } from './schema.ts'

/**
 * The value without objects and lists that nest deeper than `levels`, of which there is at least one. Returns the same
 * value if nothing nests deeper.
 */
export const prune = <T>(value: T, levels: number): T =>
  isDeeper(value, levels) ? (pruned(value, levels) as T) : value

function pruned(value: unknown, levels: number): unknown {
  if (!isNested(value)) return value
  const isShallow = (member: unknown) => levels > 1 || !isNested(member)
  if (Array.isArray(value)) return value.filter(isShallow).map((item) => pruned(item, levels - 1))
  const members = Object.entries(value).filter(([, member]) => isShallow(member))
  return Object.fromEntries(members.map(([key, member]) => [key, pruned(member, levels - 1)]))
}

const isNested = (value: unknown): value is object => typeof value === 'object' && value !== null

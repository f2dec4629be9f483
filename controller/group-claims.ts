import { generateNameFor } from '../api/template.ts'
import type { CachedGroup } from './slim-owner.ts'

type Group = Pick<CachedGroup, 'metadata'> & Named
type Named = { readonly metadata: { readonly name: string } }

/** The first part of the names of a group's VMs. */
export const vmPrefix = ({ metadata }: Group): string => generateNameFor(metadata.name)

/** The number of a VM of a group with claims: of `web-2`, 2. Undefined if the group did not give it its name. */
export function numberOf(group: Group, vm: Named): number | undefined {
  const prefix = vmPrefix(group)
  const { name } = vm.metadata
  const digits = name.startsWith(prefix) ? name.slice(prefix.length) : ''
  return /^(?:0|[1-9]\d{0,9})$/.test(digits) ? Number(digits) : undefined
}

/**
 * Names that no VM has, of the numbers below that of the replicas, at most `count`. A VM that has ended keeps its
 * number until it is gone, so that the next VM of this number gets its claims.
 */
export function freeNames(group: CachedGroup & Named, vms: readonly Named[], count: number): readonly string[] {
  const taken = new Set(vms.map(({ metadata }) => metadata.name))
  const names: string[] = []
  for (let number = 0; number < (group.spec.replicas ?? 1) && names.length < count; number++) {
    const name = `${vmPrefix(group)}${number}`
    if (!taken.has(name)) names.push(name)
  }
  return names
}

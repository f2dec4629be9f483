import type { Cause } from '../api/cause.ts'
import { joinPath } from '../api/path.ts'
import { isRecord } from '../api/schema.ts'
import { keysOfItem } from './items.ts'
import type { Structure } from './structure.ts'

/** A cause for each item whose key another item of the list has: the two would conflict in every object. */
export function duplicateCauses(root: Structure | undefined, content: unknown, at: string): Cause[] {
  const causes: Cause[] = []
  const visit = (structure: Structure | undefined, value: unknown, field: string): void => {
    if (structure?.kind === 'list' && Array.isArray(value)) {
      const seen = new Map<string, number>()
      for (const [index, item] of value.entries()) {
        for (const id of keysOfItem(structure, item)) {
          const before = seen.get(id)
          if (before !== undefined) {
            const message = `is the same item as ${field}[${before}]`
            causes.push({
              rule: 'preset-duplicate',
              field: `${field}[${index}]`,
              reason: 'FieldValueDuplicate',
              message,
            })
          } else seen.set(id, index)
        }
        visit(structure.item, item, `${field}[${index}]`)
      }
    } else if (structure?.kind === 'object' && isRecord(value)) {
      for (const [key, member] of Object.entries(value)) visit(structure.field(key), member, joinPath(field, key))
    }
  }
  visit(root, content, at)
  return causes
}

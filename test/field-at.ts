import { elementOf, type Element, type Field } from '../api/domain/description.ts'
import { domain as root } from '../api/domain/domain.ts'
import { shapeOf } from '../api/domain/shape.ts'

/**
 * The description of a path below the domain, ignoring brackets: `devices.disks[1].target.dev`,
 * `devices.disks[target.dev=vdb].source`. A list and its items have one field.
 * @returns undefined if the description does not have the path
 */
export const fieldAt = (path: string): Field | undefined => {
  let element: Element | undefined = root
  let field: Field | undefined
  for (const key of path.replaceAll(/\[[^\]]*\]/g, '').split('.')) {
    field = element && shapeOf(element).keys.get(key)?.field
    if (!field) return undefined
    element = field.at === 'child' || field.at === 'children' ? elementOf(field) : undefined
  }
  return field
}

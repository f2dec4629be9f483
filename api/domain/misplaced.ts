import { fieldNames, nearest } from '../nearest.ts'
import { elementOf, xmlName, type Element } from './description.ts'
import { domain as root } from './domain.ts'

/** How many levels below an element a key is searched. */
const maxDepth = 4

/**
 * The suggestion for an unknown key of an element, if one is likely: our name if libvirt's differs (`disks` for `disk`,
 * `onReboot` for `on_reboot`), otherwise the place where the key belongs. That place is searched below this element
 * first, then in the whole domain; an ambiguous place is not suggested.
 * @param path the path of the element, relative to the domain
 */
export const placeFor = (key: string, element: Element, path: string): string | undefined => {
  const renamed = Object.entries(element.fields).find(([name, field]) => xmlName(name, field) === key)?.[0]
  if (renamed !== undefined) return `did you mean ${JSON.stringify(renamed)}?`
  const below = shortest(pathsTo(key, element))
  if (below !== undefined) return `${JSON.stringify(key)} belongs under ${path === '' ? below : `${path}.${below}`}`
  // A typo is likelier than a key from a distant element.
  if (nearest(key, fieldNames(element.fields)) !== undefined) return undefined
  const anywhere = shortest(pathsTo(key, root))
  return anywhere === undefined ? undefined : `${JSON.stringify(key)} belongs under ${anywhere}`
}

/** The path of the least depth, if it is the only one. */
const shortest = (paths: readonly string[]): string | undefined => {
  const depth = (path: string): number => path.split('.').length
  const least = Math.min(...paths.map(depth))
  const best = paths.filter((path) => depth(path) === least)
  return best.length === 1 ? best[0] : undefined
}

const found = new WeakMap<Element, Map<string, string[]>>()

/** The paths of the elements below this one that have the key. */
const pathsTo = (key: string, element: Element): readonly string[] => {
  const index = found.get(element) ?? indexOf(element)
  found.set(element, index)
  return index.get(key) ?? []
}

const indexOf = (element: Element): Map<string, string[]> => {
  const index = new Map<string, string[]>()
  let level: { path: string; element: Element }[] = [{ path: '', element }]
  for (let depth = 0; depth <= maxDepth; depth += 1) {
    const next: { path: string; element: Element }[] = []
    for (const { path, element: holder } of level) {
      for (const [key, field] of Object.entries(holder.fields)) {
        if (path !== '') index.set(key, [...(index.get(key) ?? []), path])
        if (field.at !== 'child' && field.at !== 'children') continue
        const name = field.at === 'children' ? `${key}[]` : key
        next.push({ path: path === '' ? name : `${path}.${name}`, element: elementOf(field) })
      }
    }
    level = next
  }
  return index
}

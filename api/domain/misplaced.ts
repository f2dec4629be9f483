import { nearest } from '../nearest.ts'
import { elementOf, xmlName, type Element } from './description.ts'
import { domain as root } from './domain.ts'

/** How far below an element a key is looked for. */
const maxDepth = 4

/**
 * The suggestion for a key that an element does not have, if one is likely: libvirt's own name where ours differs
 * (`disk` for `disks`, `on_reboot` for `onReboot`), or the place where the key belongs: below this element, else
 * anywhere in the domain if there is just one such place.
 * @param path of the element, below the domain
 */
export const placeFor = (key: string, element: Element, path: string): string | undefined => {
  const renamed = Object.entries(element.fields).find(([name, field]) => xmlName(name, field) === key)?.[0]
  if (renamed !== undefined) return `did you mean ${JSON.stringify(renamed)}?`
  const below = shortest(pathsTo(key, element))
  if (below !== undefined) return `${JSON.stringify(key)} belongs under ${path === '' ? below : `${path}.${below}`}`
  // A slip of the keyboard is likelier than a key out of some far place.
  if (nearest(key, Object.keys(element.fields)) !== undefined) return undefined
  const anywhere = shortest(pathsTo(key, root))
  return anywhere === undefined ? undefined : `${JSON.stringify(key)} belongs under ${anywhere}`
}

/** The only path of the least depth. */
const shortest = (paths: readonly string[]): string | undefined => {
  const depth = (path: string): number => path.split('.').length
  const least = Math.min(...paths.map(depth))
  const best = paths.filter((path) => depth(path) === least)
  return best.length === 1 ? best[0] : undefined
}

const found = new WeakMap<Element, Map<string, string[]>>()

/** The paths of the elements below this one that have the key, this one itself not counted. */
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

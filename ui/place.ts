import { isPlural, type Plural } from './kinds.ts'

/** What the page shows. */
export type Place =
  | { readonly view: 'list'; readonly plural: Plural }
  | { readonly view: 'vm'; readonly namespace: string; readonly name: string }
  /** The text of an object. The namespace of a cluster preset is empty, and so is the name of a new object. */
  | { readonly view: 'text'; readonly plural: Plural; readonly namespace: string; readonly name: string }

/** `#/virtualmachines`, `#/vm/NAMESPACE/NAME`, `#/virtualmachinepresets/NAMESPACE/NAME`. */
export function placeOf(hash: string): Place {
  const [first = '', namespace = '', name = ''] = hash.replace(/^#\/?/, '').split('/').map(decoded)
  if (first === 'vm' && name !== '') return { view: 'vm', namespace, name }
  if (isPlural(first) && name !== '') {
    const scope = namespace === clusterScope ? '' : namespace
    return { view: 'text', plural: first, namespace: scope, name: name === newName ? '' : name }
  }
  return { view: 'list', plural: isPlural(first) ? first : 'virtualmachines' }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Neither is a name in Kubernetes. */
const clusterScope = '-'
const newName = '+'

export const vmHref = (namespace: string, name: string): string =>
  `#/vm/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`

export const textHref = (plural: Plural, namespace: string, name: string): string =>
  `#/${plural}/${encodeURIComponent(namespace || clusterScope)}/${name === '' ? newName : encodeURIComponent(name)}`

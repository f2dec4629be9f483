import { isPlural, isPresetPlural, type Plural, type PresetPlural } from './kinds.ts'

/** What the page shows. */
export type Place =
  | { readonly view: 'list'; readonly plural: Plural }
  | { readonly view: 'vm'; readonly namespace: string; readonly name: string }
  /** The namespace of a cluster preset is empty; the name of a new one as well. */
  | { readonly view: 'preset'; readonly plural: PresetPlural; readonly namespace: string; readonly name: string }

/** `#/virtualmachines`, `#/vm/NAMESPACE/NAME`, `#/virtualmachinepresets/NAMESPACE/NAME`. */
export function placeOf(hash: string): Place {
  const [first = '', namespace = '', name = ''] = hash.replace(/^#\/?/, '').split('/').map(decoded)
  if (first === 'vm' && name !== '') return { view: 'vm', namespace, name }
  if (isPresetPlural(first) && name !== '') {
    const scope = namespace === clusterScope ? '' : namespace
    return { view: 'preset', plural: first, namespace: scope, name: name === newName ? '' : name }
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

export const presetHref = (plural: PresetPlural, namespace: string, name: string): string =>
  `#/${plural}/${encodeURIComponent(namespace || clusterScope)}/${name === '' ? newName : encodeURIComponent(name)}`

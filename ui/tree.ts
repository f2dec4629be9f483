import { pathKeys } from '../api/path.ts'

/** Where a value is from, as `kubectl vm explain -o json` prints it. */
export interface Credit {
  readonly user?: true
  readonly preset?: string
  readonly revision?: string
  readonly default?: string
}

export interface Field extends Credit {
  readonly path: string
  readonly value: unknown
  readonly overridden?: readonly (Credit & { readonly value?: unknown; readonly why: string })[]
}

export interface Explanation {
  readonly presets: readonly {
    readonly preset: string
    readonly layer: string
    readonly priority: number
    readonly outcome: string
    readonly why?: string
  }[]
  readonly fields: readonly Field[]
  readonly removed: readonly (Credit & { readonly path: string })[]
}

/** A node of the tree: a leaf has a field, the others have children. */
export interface Node {
  readonly key: string
  readonly path: string
  readonly field?: Field
  readonly children: readonly Node[]
}

interface Draft {
  key: string
  path: string
  field?: Field
  children: Draft[]
}

/** The fields as a tree, in their order. */
export function treeOf(fields: readonly Field[]): readonly Node[] {
  const root: Draft = { key: '', path: '', children: [] }
  for (const field of fields) {
    let at = root
    for (const key of pathKeys(field.path).map(String)) {
      let child = at.children.find((one) => one.key === key)
      if (child === undefined) {
        child = { key, path: `${at.path}/${key}`, children: [] }
        at.children.push(child)
      }
      at = child
    }
    at.field = field
  }
  return root.children
}

export const originText = ({ user, preset, default: rule }: Credit): string =>
  user === true ? 'user' : preset === undefined ? `default ${rule ?? ''}` : `preset ${preset}`

export const kindOf = ({ user, preset }: Credit): 'user' | 'preset' | 'default' =>
  user === true ? 'user' : preset === undefined ? 'default' : 'preset'

/** The fields with every word of a text in their path, value or origin, and of a kind of origin, if any is chosen. */
export function found(fields: readonly Field[], text: string, kind: string): readonly Field[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  return fields.filter((field) => {
    if (kind !== '' && kindOf(field) !== kind) return false
    const all = `${field.path} ${JSON.stringify(field.value)} ${originText(field)}`.toLowerCase()
    return words.every((word) => all.includes(word))
  })
}

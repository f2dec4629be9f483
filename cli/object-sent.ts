import { completedByAnnotation } from '../api/virtual-machine.ts'
import { joinPath, relatedTo } from '../api/path.ts'
import { isRecord } from '../api/schema.ts'
import { originOf } from '../completion/origins.ts'
import { decodeProvenance, type Provenance } from '../completion/provenance.ts'
import type { Subject } from '../presets/kind.ts'
import type { ObjectStructure, Structure } from '../presets/structure.ts'

type Fields = { readonly [key: string]: unknown }

/**
 * What the user of a stored object sent, as far as its provenance records it: without what presets added, and with what
 * they overrode. An item whose key is from a preset is left out with what the API server has added to it. If the
 * overridden value is unknown, the current one is used.
 */
export function asObjectSent(stored: Subject, structure: ObjectStructure): Subject {
  const { [completedByAnnotation]: claim = '', ...annotations } = stored.metadata.annotations ?? {}
  const provenance = decodeProvenance(claim)
  const bare = { ...stored, metadata: { ...stored.metadata, annotations } }
  return provenance === undefined ? bare : sent(bare, structure, provenance)
}

function sent(object: Subject, root: ObjectStructure, { origins, overridden }: Provenance): Subject {
  const lost = new Map(
    [...overridden].flatMap(([path, values]) => {
      const users = values.find(({ origin }) => origin.by === 'user')
      return users === undefined ? [] : [[path, users.value] as const]
    }),
  )
  const isLost = relatedTo(lost.keys())
  const isAdded = (path: string): boolean => originOf(origins, path).by === 'preset' && !isLost(path)

  const visit = (value: unknown, structure: Structure | undefined, path: string): unknown => {
    const users = lost.get(path)
    if (users !== undefined) return users
    if (Array.isArray(value) && value.length > 0) {
      const keys = structure?.kind === 'list' ? structure.keys.flat() : []
      const isAddedItem = (at: string): boolean =>
        keys.length > 0 && keys.every((key) => isAdded(key.reduce((above, name) => joinPath(above, name), at)))
      const items = value.flatMap((item: unknown, index) => {
        const at = joinPath(path, index)
        const below = isAddedItem(at)
          ? undefined
          : visit(item, structure?.kind === 'list' ? structure.item : undefined, at)
        return below === undefined ? [] : [below]
      })
      return items.length === 0 ? undefined : items
    }
    if (isRecord(value) && Object.keys(value).length > 0) {
      const below = fields(value, structure, path)
      return Object.keys(below).length === 0 ? undefined : below
    }
    return isAdded(path) ? undefined : value
  }

  const fields = (value: Fields, structure: Structure | undefined, path: string): Fields =>
    Object.fromEntries(
      Object.entries(value).flatMap(([key, member]) => {
        const below = structure?.kind === 'object' ? structure.field(key) : undefined
        const left = visit(member, below, joinPath(path, key))
        return left === undefined ? [] : [[key, left] as const]
      }),
    )

  const { metadata, ...rest } = object
  const { labels = {}, annotations = {} } = metadata
  return {
    ...fields(rest, root, ''),
    metadata: {
      ...metadata,
      labels: fields(labels, undefined, 'metadata.labels'),
      annotations: fields(annotations, undefined, 'metadata.annotations'),
    },
  } as Subject
}

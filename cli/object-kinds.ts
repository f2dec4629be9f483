import { targetText, type Target } from '../api/object-preset.ts'
import { isRecord } from '../api/schema.ts'
import { parseDocuments } from '../api/yaml.ts'
import { createServedKinds, type ServedKinds } from '../inventory/served-kinds.ts'
import { kindsIn, type Kinds } from '../presets/object-kind.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { Usage } from './failure.ts'
import { filesOf, readText } from './input.ts'

/** Where the structure of kinds of other APIs comes from. */
export interface KindSource {
  /** These kinds, or why they cannot be used, perhaps among others. @throws what the client of the API server throws */
  read(targets: readonly Target[]): Promise<Kinds>
}

export const kindsOfFiles = (kinds: Kinds): KindSource => ({ read: () => Promise.resolve(kinds) })

/** Reads the schema of each kind once. @param kube is called when a kind is read */
export function kindsOfCluster(kube: () => Promise<Pick<KubeClient, 'request'>>): KindSource {
  let served: ServedKinds | undefined
  return {
    async read(targets) {
      const known = (served ??= createServedKinds(await kube()))
      const missing = targets.filter((target) => known.get(target) === undefined)
      const { errors } = await known.refresh(missing)
      if (errors.length > 0) throw errors[0]
      return new Map(
        targets.flatMap((target) => {
          const found = known.get(target)
          return found === undefined ? [] : [[targetText(target), () => found] as const]
        }),
      )
    },
  }
}

/** @throws Usage for a file that describes no kind */
export async function readKinds(paths: readonly string[]): Promise<Kinds> {
  const kinds = new Map<string, NonNullable<ReturnType<Kinds['get']>>>()
  for (const path of paths) {
    for (const file of await filesOf(path)) {
      const found = documentsIn(file, await readText(file)).flatMap((document) => kindsIn(document) ?? [])
      if (found.length === 0)
        throw new Usage(`${file}: is neither a CustomResourceDefinition nor an OpenAPI v3 document of the API server`)
      for (const [name, read] of found.flatMap((some) => [...some])) kinds.set(name, read)
    }
  }
  return kinds
}

/** The documents of a file; the items of a list are documents of their own. */
function documentsIn(file: string, text: string): readonly unknown[] {
  const read = text.trimStart().startsWith('{') ? { values: [parseJson(file, text)] } : parsedYaml(file, text)
  return read.values.flatMap((value): readonly unknown[] =>
    isRecord(value) && Array.isArray(value['items']) ? value['items'] : [value],
  )
}

/** Documents of the API server have megabytes, which the parser of YAML would read a hundred times slower. */
function parseJson(file: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Usage(`${file}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}

function parsedYaml(file: string, text: string): { readonly values: readonly unknown[] } {
  const read = parseDocuments(text)
  if ('problem' in read) throw new Usage(`${file}:${read.problem}`)
  return { values: read.documents.map(({ value }) => value) }
}

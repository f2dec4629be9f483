import { writeFile } from 'node:fs/promises'
import { stringify } from 'yaml'
import { customResourceDefinitions } from './crd.ts'
import { domain } from './domain/domain.ts'
import { schemaOf } from './domain/schema.ts'

/** kubectl reads YAML 1.1, in which an unquoted `yes` is a boolean. */
const options = { aliasDuplicateObjects: false, lineWidth: 0, compat: 'yaml-1.1' } as const

/** File name below `manifests/crds/` → YAML, for every kind. */
export const crdManifests = (): ReadonlyMap<string, string> =>
  new Map(
    customResourceDefinitions(schemaOf(domain)).map((definition) => [
      `${definition.spec.names.plural}.yaml`,
      `# Made from api/ by \`npm run manifests\`; do not edit.\n${stringify(definition, options)}`,
    ]),
  )

if (import.meta.main) {
  const folder = new URL('../manifests/crds/', import.meta.url)
  for (const [name, text] of crdManifests()) await writeFile(new URL(name, folder), text)
}

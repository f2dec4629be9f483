import { writeFile } from 'node:fs/promises'
import { stringify } from 'yaml'
import { customResourceDefinitions } from './crd.ts'
import { domain } from './domain/domain.ts'
import { schemaOf } from './domain/schema.ts'

/** File name below `manifests/crds/` → YAML, for every kind. */
export const crdManifests = (): ReadonlyMap<string, string> =>
  new Map(
    customResourceDefinitions(schemaOf(domain)).map((definition) => [
      `${definition.spec.names.plural}.yaml`,
      `# Made from api/ by \`npm run manifests\`; do not edit.\n${stringify(definition, { aliasDuplicateObjects: false, lineWidth: 0 })}`,
    ]),
  )

if (import.meta.main) {
  const folder = new URL('../manifests/crds/', import.meta.url)
  for (const [name, text] of crdManifests()) await writeFile(new URL(name, folder), text)
}

import { readXml } from '../../api/domain/sax.ts'
import { forbidden } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

/** All XML namespaces that virtset uses, or will use, in a domain begin so. */
const reserved = 'https://virtset.io/'

export const reservedMetadata: Rule = {
  id: 'reserved-metadata',
  description: `XML in \`metadata\` uses no namespace that begins with \`${reserved}\`: those are reserved for virtset.`,
  about: ['metadata'],
  *check({ domain: { metadata } }): Iterable<Finding> {
    for (const namespace of namespacesOf(metadata ?? '')) {
      if (!namespace.startsWith(reserved)) continue
      const message = `uses the XML namespace "${namespace}"; namespaces that begin with ${reserved} are reserved for virtset`
      yield forbidden('spec.domain.metadata', undefined, message, 'use a namespace of your own')
    }
  },
  example: example(
    { metadata: '<v:grace xmlns:v="https://virtset.io/launcher/1" deadline="2999-01-01T00:00:00Z"/>' },
    { metadata: '<v:grace xmlns:v="https://example.com/backup" deadline="2999-01-01T00:00:00Z"/>' },
  ),
}

/** Namespaces of elements and attributes, each once. */
function namespacesOf(xml: string): ReadonlySet<string> {
  const found = new Set<string>()
  const nothing = () => {}
  readXml(
    xml,
    {
      open: ({ uri, attributes }) => {
        found.add(uri)
        for (const attribute of Object.values(attributes)) found.add(attribute.uri)
      },
      close: nothing,
      text: nothing,
    },
    { fragment: true },
  )
  return found
}

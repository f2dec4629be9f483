import { readXml, type XmlFault } from '../../api/domain/sax.ts'
import { forbidden } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

/** The prefix of all XML namespaces that virtset uses in a domain, now and later. */
const reserved = 'https://virtset.io/'

export const reservedMetadata: Rule = {
  id: 'reserved-metadata',
  description: `XML in \`metadata\` must not use namespaces that begin with \`${reserved}\`, which are reserved for virtset.`,
  about: ['metadata'],
  *check({ domain: { metadata } }): Iterable<Finding> {
    const { namespaces, fault } = namespacesOf(metadata ?? '')
    if (fault !== undefined) {
      yield forbidden('spec.domain.metadata', undefined, `cannot be read: ${fault.message}`, 'correct the XML')
    }
    for (const namespace of namespaces) {
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

/** The namespaces of all elements and attributes. */
function namespacesOf(xml: string): { readonly namespaces: ReadonlySet<string>; readonly fault: XmlFault | undefined } {
  const namespaces = new Set<string>()
  const nothing = () => {}
  const fault = readXml(
    xml,
    {
      open: ({ uri, attributes }) => {
        namespaces.add(uri)
        for (const attribute of Object.values(attributes)) namespaces.add(attribute.uri)
      },
      close: nothing,
      text: nothing,
    },
    { fragment: true },
  )
  return { namespaces, fault }
}

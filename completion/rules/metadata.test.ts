import { testRule } from '../../test/rule-table.ts'

testRule('reserved-metadata', [
  {
    refused: { metadata: '<v:grace xmlns:v="https://virtset.io/launcher/1" deadline="2999-01-01T00:00:00Z"/>' },
    causes: [
      'spec.domain.metadata: Forbidden: uses the XML namespace "https://virtset.io/launcher/1"; namespaces that begin with https://virtset.io/ are reserved for virtset; use a namespace of your own',
    ],
    accepted: { metadata: '<v:grace xmlns:v="https://example.com/launcher/1" deadline="2999-01-01T00:00:00Z"/>' },
  },
  {
    refused: { metadata: '<a xmlns:v="https://virtset.io/x" v:b="c"/>' },
    causes: [
      'spec.domain.metadata: Forbidden: uses the XML namespace "https://virtset.io/x"; namespaces that begin with https://virtset.io/ are reserved for virtset; use a namespace of your own',
    ],
    accepted: { metadata: '<a xmlns:v="https://example.com/x" v:b="c"/>' },
  },
  {
    refused: { metadata: '<a xmlns="https://example.com/"><b xmlns="https://virtset.io/"/></a>' },
    causes: [
      'spec.domain.metadata: Forbidden: uses the XML namespace "https://virtset.io/"; namespaces that begin with https://virtset.io/ are reserved for virtset; use a namespace of your own',
    ],
    accepted: { metadata: '<a xmlns="https://example.com/"><b/></a>' },
  },
])

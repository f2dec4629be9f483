import { describe, expect, test } from 'vitest'
import { foreignFault, normalForeign } from './foreign.ts'
import { readDomain, writeDomain } from './xml.ts'

describe('the canonical spelling of foreign XML', () => {
  test.each([
    ['quotes', `<a b='c"d'/>`, '<a b="c&quot;d"/>'],
    ['an element without content', '<a></a>', '<a/>'],
    ['white space between elements is dropped', '<a>\n  <b/>\n</a>\n', '<a><b/></a>'],
    ['white space as the only content is preserved', '<a> </a>', '<a> </a>'],
    ['text beside elements is trimmed', '<a> x <b/> y </a>', '<a>x<b/>y</a>'],
    ['comments are dropped', '<a><!-- x --><b/></a>', '<a><b/></a>'],
    ['CDATA is text', '<a><![CDATA[<&]]></a>', '<a>&lt;&amp;</a>'],
    ['references', '<a b="&#10;&#9;&#x41;">&gt;&#13;</a>', '<a b="&#10;&#9;A">&gt;&#13;</a>'],
    ['namespaces', '<p:a xmlns:p="urn:x" p:b="1"><p:c/></p:a>', '<p:a xmlns:p="urn:x" p:b="1"><p:c/></p:a>'],
    ['removes an unused namespace', '<a xmlns:p="urn:x"/>', '<a/>'],
    [
      'a default namespace, and none below it',
      '<a xmlns="urn:x"><b xmlns=""/></a>',
      '<a xmlns="urn:x"><b xmlns=""/></a>',
    ],
    ['several elements', '<a/>x<b/>', '<a/>x<b/>'],
    ['nothing', '', ''],
  ])('%s', (_, xml, expected) => {
    expect(normalForeign(xml)).toBe(expected)
    expect(normalForeign(expected)).toBe(expected)
    expect(foreignFault(expected)).toBeUndefined()
  })
})

test.each([
  '<a>',
  '</a>',
  '<a></b>',
  '<p:a/>',
  '&x;',
  '<!DOCTYPE a><a/>',
  '<a/><',
  '</metadata><name>x</name><metadata>',
])('returns %s unchanged: it is not well-formed', (xml) => {
  expect(foreignFault(xml)).toBeDefined()
  expect(normalForeign(xml)).toBe(xml)
})

test('namespaces that the domain declares are declared where they are used', () => {
  const read = readDomain(
    `<domain xmlns:p='urn:x' xmlns:q='urn:y'><metadata><p:a q:b='1'><p:c/></p:a><p:d/></metadata></domain>`,
  )
  const domain = {
    metadata: '<p:a xmlns:p="urn:x" xmlns:q="urn:y" q:b="1"><p:c/></p:a><p:d xmlns:p="urn:x"/>',
  }
  expect(read).toEqual({ domain })
  expect(readDomain(writeDomain(domain))).toEqual({ domain })
})

test('a namespace that many elements would repeat is refused, wherever it is declared', () => {
  const users = '<p:a/>'.repeat(1000)
  const uri = 'u'.repeat(60_000)
  const tooLong = expect.stringContaining('is longer than 1048576 characters')
  expect(foreignFault(`<r xmlns:p="${uri}">${users}</r>`)?.message).toEqual(tooLong)
  expect(readDomain(`<domain xmlns:p='${uri}'><metadata>${users}</metadata></domain>`)).toEqual({
    causes: [expect.objectContaining({ rule: 'xml-malformed', message: tooLong })],
  })
  // Where the root uses it, it is declared once.
  expect(foreignFault(`<p:r xmlns:p="${uri}">${users}</p:r>`)).toBeUndefined()
})

test('what escapes make longer is accepted', () => {
  const xml = `<a b='${'"'.repeat(100_000)}'/>`
  expect(foreignFault(xml)).toBeUndefined()
  expect(normalForeign(xml).length).toBeGreaterThan(600_000)
})

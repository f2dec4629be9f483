import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { domains } from '../../test/arbitraries/domain.ts'
import type { Domain } from './domain.ts'
import { readDomain, writeDomain } from './xml.ts'

const seed: Domain = {
  memory: { unit: 'MB', value: 64 },
  os: { type: { os: 'hvm' } },
  type: 'qemu',
}

test('a number that libvirt would read as hex is written with a prefix', () => {
  const xml = writeDomain({ devices: { panics: [{ address: { type: 'isa', iobase: 0x505 } }] } })
  expect(xml).toContain('iobase="0x505"')
})

describe('from XML to JSON', () => {
  test.each<[string, string, Domain]>([
    ['an attribute', `<domain type='kvm'/>`, { type: 'kvm' }],
    ['an element that is only text', '<domain><name>a</name></domain>', { name: 'a' }],
    ['text beside attributes', `<domain><memory unit='MB'>64</memory></domain>`, { memory: { unit: 'MB', value: 64 } }],
    [
      'an empty element that means present',
      '<domain><features><acpi/></features></domain>',
      { features: { acpi: {} } },
    ],
    ['a list of one', `<domain><os><boot dev='hd'/></os></domain>`, { os: { boots: [{ dev: 'hd' }] } }],
    [
      'lists that are mixed in XML',
      `<domain><cputune><vcpupin vcpu='0' cpuset='1'/><shares>2</shares><vcpupin vcpu='1' cpuset='2'/></cputune></domain>`,
      {
        cputune: {
          vcpupins: [
            { vcpu: 0, cpuset: '1' },
            { vcpu: 1, cpuset: '2' },
          ],
          shares: 2,
        },
      },
    ],
    ['yes and no', `<domain><os><bootmenu enable='yes'/></os></domain>`, { os: { bootmenu: { enable: true } } }],
    [
      'an attribute and a child with the same name',
      `<domain><os firmware='efi'><firmware><feature enabled='no' name='secure-boot'/></firmware></os></domain>`,
      { os: { firmware: 'efi', firmwareSelection: { features: [{ enabled: false, name: 'secure-boot' }] } } },
    ],
    [
      "elements of QEMU's namespace, with any prefix",
      `<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:commandline><q:arg value='-s'/></q:commandline></domain>`,
      { qemuCommandline: { args: [{ value: '-s' }] } },
    ],
    ['CDATA and references', '<domain><title><![CDATA[a<b]]>&amp;&#x43;</title></domain>', { title: 'a<b&C' }],
    [
      'comments and processing instructions are dropped',
      `<?xml version='1.0' encoding='UTF-8'?><!-- a --><domain><!-- b --><?c d?><name>e</name></domain><!-- f -->`,
      { name: 'e' },
    ],
    [
      'a prefix for hex that libvirt reads without one',
      `<domain><devices><panic><address type='isa' iobase='505'/></panic></devices></domain>`,
      { devices: { panics: [{ address: { type: 'isa', iobase: '0x505' } }] } },
    ],
    ['white space around numbers', '<domain><memory>\n 64 \n</memory></domain>', { memory: { value: 64 } }],
    [
      'the white space of free text is preserved',
      '<domain><description> a\n b </description></domain>',
      { description: ' a\n b ' },
    ],
  ])('%s', (_, xml, domain) => expect(readDomain(xml)).toEqual({ domain }))

  test.each([
    ['0', 0],
    ['64', 64],
    ['9007199254740991', 9_007_199_254_740_991],
    ['9007199254740992', '9007199254740992'],
    ['18446744073709551615', '18446744073709551615'],
    ['007', '007'],
    ['0x10', '0x10'],
    ['-0', '-0'],
    ['+1', '+1'],
    ['1e3', '1e3'],
    ['1.0', '1.0'],
    ['many', 'many'],
  ])('the number %s', (text, value) =>
    expect(readDomain(`<domain><memory>${text}</memory></domain>`)).toEqual({ domain: { memory: { value } } }),
  )

  test('bytes are read like text', () =>
    expect(readDomain(new TextEncoder().encode('\uFEFF<domain><title>é😀</title></domain>'))).toEqual({
      domain: { title: 'é😀' },
    }))
})

describe('reports everything that the description does not know at once', () => {
  test.each<[string, string, [rule: string, field: string, message: string][]]>([
    [
      'elements, attributes and text',
      `<domain kind='a'>
         <nmae>b</nmae>
         <os sort='c'>text<type>hvm</type></os>
         <cpu><feature name='vmx'/><feature nmae='svm'/></cpu>
       </domain>`,
      [
        ['xml-unknown-attribute', '/domain/@kind', 'line 1: domain has no attribute of this name'],
        ['xml-unknown-element', '/domain/nmae', 'line 2: domain has no element of this name'],
        ['xml-unknown-attribute', '/domain/os/@sort', 'line 3: os has no attribute of this name'],
        ['xml-unknown-text', '/domain/os', 'line 3: has no text, found "text"'],
        ['xml-unknown-attribute', '/domain/cpu/feature[2]/@nmae', 'line 4: feature has no attribute of this name'],
      ],
    ],
    [
      'ignores what is inside an unknown element',
      '<domain><a><b/>c<d/></a><name>e</name></domain>',
      [['xml-unknown-element', '/domain/a', 'line 1: domain has no element of this name']],
    ],
    [
      'an element of another namespace',
      `<domain xmlns:x='urn:x' x:type='kvm'><x:name>a</x:name></domain>`,
      [
        ['xml-unknown-attribute', '/domain/@{urn:x}type', 'line 1: domain has no attribute of this name'],
        ['xml-unknown-element', '/domain/{urn:x}name', 'line 1: domain has no element of this name'],
      ],
    ],
    [
      "an element of QEMU's namespace in a place where libvirt has none",
      `<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><os><qemu:commandline/></os></domain>`,
      [['xml-unknown-element', '/domain/os/qemu:commandline', 'line 1: os has no element of this name']],
    ],
    [
      'a default namespace',
      `<domain xmlns='urn:x'/>`,
      [['xml-unknown-element', '/{urn:x}domain', 'line 1: expected a domain']],
    ],
    [
      'an element that must occur only once',
      '<domain><name>a</name><name>b</name></domain>',
      [['xml-repeated-element', '/domain/name', 'line 1: must occur only once']],
    ],
    [
      'an element inside text',
      '<domain><name>a<b/></name></domain>',
      [['xml-unknown-element', '/domain/name/b', 'line 1: name has no element of this name']],
    ],
    ['no domain', '<network/>', [['xml-unknown-element', '/network', 'line 1: expected a domain']]],
  ])('%s', (_, xml, causes) =>
    expect(readDomain(xml)).toEqual({
      causes: causes.map(([rule, field, message]) => ({ rule, field, message, reason: 'FieldValueInvalid' })),
    }),
  )

  test('many unknown elements are counted, not all listed', () => {
    const read = readDomain(`<domain>${'<a/>'.repeat(100_000)}</domain>`)
    expect('causes' in read && read.causes.length).toBe(257)
    expect('causes' in read && read.causes.at(-1)).toMatchObject({
      field: '/',
      value: 99_744,
      message: 'more faults are not listed',
    })
  })
})

describe('hostile XML is refused at once', () => {
  const nested = (depth: number): string => '<a>'.repeat(depth) + '</a>'.repeat(depth)
  test.each<[string, string | Uint8Array, string]>([
    ['nothing', '', 'document must contain a root element.'],
    ['no XML', '{"a": 1}', 'text data outside of root node.'],
    ['an element without end', '<domain><name>', 'unclosed tag: name'],
    [
      'a DOCTYPE',
      '<!DOCTYPE domain [<!ENTITY a "b">]><domain>&a;</domain>',
      'has a DOCTYPE; libvirt needs none, and entities are not read',
    ],
    ['an entity', '<domain><title>&a;</title></domain>', 'undefined entity.'],
    [
      'entities that grow',
      `<!DOCTYPE a [<!ENTITY a "${'b'.repeat(1000)}"><!ENTITY c "${'&a;'.repeat(1000)}">]><domain><title>&c;</title></domain>`,
      'has a DOCTYPE; libvirt needs none, and entities are not read',
    ],
    ['deep nesting', nested(100_000), 'nests elements more than 128 deep'],
    [
      'deep nesting inside metadata',
      `<domain><metadata>${nested(100_000)}</metadata></domain>`,
      'nests elements more than 128 deep',
    ],
    [
      '32 MB of text',
      `<domain><title>${'a'.repeat(32_000_000)}</title></domain>`,
      'is 32000032 bytes long, at most 4194304 are read',
    ],
    ['an attribute twice', `<domain type='kvm' type='qemu'/>`, 'duplicate attribute: type.'],
    ['bytes that are not UTF-8', Uint8Array.of(0x3c, 0x61, 0xff, 0x2f, 0x3e), 'is not valid UTF-8'],
    ['half a surrogate pair', '<domain><title>\uD800</title></domain>', 'is not valid UTF-8'],
    ['UTF-16', new Uint8Array(Buffer.from('\uFEFF<domain/>', 'utf16le')), 'is not valid UTF-8'],
    [
      'another encoding',
      `<?xml version='1.0' encoding='ISO-8859-1'?><domain/>`,
      'is declared to be in ISO-8859-1; only UTF-8 is read',
    ],
    ['XML 1.1', `<?xml version='1.1'?><domain/>`, 'is XML 1.1; only XML 1.0 is read'],
    ['NUL', '<domain><title>\0</title></domain>', 'disallowed character.'],
    ['a reference to NUL', '<domain><title>&#0;</title></domain>', 'malformed character entity.'],
    ['a prefix of no namespace', '<domain><a:b/></domain>', 'unbound namespace prefix: "a".'],
    ['two roots', '<domain/><domain/>', 'documents may contain only one root.'],
  ])('%s', (_, xml, message) => {
    const start = process.cpuUsage().user
    const read = readDomain(xml)
    expect(process.cpuUsage().user - start).toBeLessThan(500_000)
    const last = 'causes' in read ? read.causes.at(-1) : undefined
    expect(last).toMatchObject({ rule: 'xml-malformed', reason: 'FieldValueInvalid' })
    expect(last?.message.replace(/^line \d+: /, '')).toBe(message)
  })

  test('names that are special in JavaScript are treated as data', () => {
    const read = readDomain(`<domain __proto__='a'><constructor/><__proto__><x/></__proto__></domain>`)
    expect('causes' in read && read.causes.map(({ field }) => field)).toEqual([
      '/domain/@__proto__',
      '/domain/constructor',
      '/domain/__proto__',
    ])
    expect(Object.prototype).not.toHaveProperty('x')
  })
})

describe('from JSON to XML', () => {
  test('elements are in the order of the description', () =>
    expect(writeDomain(seed)).toBe(`<domain type="qemu">
  <memory unit="MB">64</memory>
  <os>
    <type>hvm</type>
  </os>
</domain>
`))

  test.each<[string, Domain, string]>([
    ['a decimal string is written as it is', { memory: { value: '0064' } }, '<memory>0064</memory>'],
    ['words are written as they are', JSON.parse('{"os":{"bootmenu":{"enable":"yes"}}}'), '<bootmenu enable="yes"/>'],
    ['what looks like a reference is text', { title: '&lt;&#10;' }, '<title>&amp;lt;&amp;#10;</title>'],
    [
      'line ends in attributes survive',
      { sysinfos: [{ entries: [{ name: 'a\n\tb' }] }] },
      '<entry name="a&#10;&#9;b"/>',
    ],
    [
      'the namespace of QEMU',
      { qemuCommandline: { args: [{ value: '-s' }] } },
      '<domain xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">\n  <qemu:commandline>',
    ],
  ])('%s', (_, domain, part) => expect(writeDomain(domain)).toContain(part))

  test('throws for a domain that was not validated', () =>
    expect(() => writeDomain(JSON.parse('{"name":{"a":1}}'))).toThrow('the domain was not validated'))
})

/** Bytes of a domain, some of them changed, removed or repeated. */
const damaged = fc
  .tuple(
    domains({ fields: 3 }).map((domain) => new TextEncoder().encode(writeDomain(domain))),
    fc.array(fc.tuple(fc.nat(), fc.constantFrom(0, 1, 2, 3), fc.nat(255)), { minLength: 1, maxLength: 4 }),
  )
  .map(([bytes, changes]) => {
    const list = [...bytes]
    for (const [at, kind, byte] of changes) {
      const index = at % list.length
      if (kind === 0) list.splice(index, 1, byte)
      else if (kind === 1) list.splice(index, 1)
      else if (kind === 2) list.splice(index, 0, byte)
      else list.splice(index, 0, ...list.slice(index, index + 20))
    }
    return Uint8Array.from(list)
  })

test('damaged XML yields a domain or causes, and never throws', () =>
  fc.assert(
    fc.property(damaged, (bytes) => {
      const read = readDomain(bytes)
      expect('domain' in read || read.causes.length > 0).toBe(true)
    }),
    { numRuns: 1000 },
  ))

test('JSON to XML to JSON is the identity', () =>
  fc.assert(
    fc.property(domains(), (domain) => {
      expect(readDomain(writeDomain(domain))).toEqual({ domain })
    }),
    { numRuns: 500 },
  ))

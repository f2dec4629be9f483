import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { domains } from '../../test/arbitraries/domain.ts'
import { canonical, canonicalSpelling } from './canonical.ts'
import { elementOf, type Element } from './description.ts'
import { domain as root } from './domain.ts'
import { writeDomain } from './xml.ts'

/** As JSON, so that the order of keys matters. */
const spelled = (json: string): string => JSON.stringify(canonical(JSON.parse(json)))

describe("libvirt's own spelling", () => {
  test.each([
    ['sizes in KiB', '{"memory":{"unit":"MiB","value":1}}', '{"memory":{"unit":"KiB","value":1024}}'],
    ['sizes rounded up', '{"memory":{"unit":"MB","value":64}}', '{"memory":{"unit":"KiB","value":62500}}'],
    ['a bare size in its unit', '{"memory":{"value":"64"}}', '{"memory":{"unit":"KiB","value":64}}'],
    [
      'sizes beyond 2^53, exactly',
      '{"memory":{"unit":"b","value":"18446744073709551615"}}',
      '{"memory":{"unit":"KiB","value":"18014398509481984"}}',
    ],
    [
      "a size beyond libvirt's 64 bits is unchanged",
      '{"memory":{"unit":"EiB","value":16}}',
      '{"memory":{"unit":"EiB","value":16}}',
    ],
    [
      'sizes in the largest unit without a fraction, if libvirt uses it',
      '{"features":{"smm":{"tseg":{"unit":"KiB","value":49152}},"tcg":{"tbCache":{"value":128}}}}',
      '{"features":{"smm":{"tseg":{"unit":"MiB","value":48}},"tcg":{"tbCache":{"unit":"KiB","value":128}}}}',
    ],
    [
      'sizes among other fields',
      '{"cpu":{"numa":{"cells":[{"unit":"GiB","memory":"1","cpus":"1,0"}]}}}',
      '{"cpu":{"numa":{"cells":[{"cpus":"0-1","memory":1048576,"unit":"KiB"}]}}}',
    ],
    [
      'NUMA nodes in their order, and the first of them with the CPUs that none has',
      '{"vcpu":{"value":4},"cpu":{"numa":{"cells":[{"id":1,"cpus":"2"},{"id":0,"cpus":"0"}]}}}',
      '{"vcpu":{"value":4},"cpu":{"numa":{"cells":[{"id":0,"cpus":"0-1,3"},{"id":1,"cpus":"2"}]}}}',
    ],
    [
      'empty texts are not stored',
      '{"title":"","os":{"cmdline":"","kernel":"/k"},"devices":{"disks":[{"serial":"","target":{"dev":"vda"}}]}}',
      '{"os":{"kernel":"/k"},"devices":{"disks":[{"target":{"dev":"vda"}}]}}',
    ],
    ['an empty generation id', '{"genid":""}', '{}'],
    [
      'empty elements are not stored',
      '{"perf":{},"keywrap":{},"throttlegroups":{},"os":{"firmwareSelection":{}}}',
      '{"os":{}}',
    ],
    [
      'fields of another clock are not stored',
      '{"clock":{"offset":"timezone","basis":"utc","timezone":"Europe/Paris","start":16}}',
      '{"clock":{"offset":"timezone","timezone":"Europe/Paris"}}',
    ],
    [
      'an adjusted clock is one that the guest sets',
      '{"clock":{"offset":"utc","adjustment":5,"start":16}}',
      '{"clock":{"offset":"variable","adjustment":5,"basis":"utc"}}',
    ],
    [
      'the start of an absolute clock',
      '{"clock":{"offset":"absolute","adjustment":"reset","start":16}}',
      '{"clock":{"offset":"absolute","start":16}}',
    ],
    ['a guarantee of no memory', '{"memtune":{"minGuarantee":{"value":0}}}', '{}'],
    [
      'SMBIOS entries without a value',
      '{"sysinfos":[{"type":"smbios","bios":{"entries":[{"name":"date","value":""}]},"system":{"entries":[{"name":"uuid"},{"name":"sku","value":"x"}]}}]}',
      '{"sysinfos":[{"type":"smbios","system":{"entries":[{"name":"sku","value":"x"}]}}]}',
    ],
    [
      'words as booleans, decimal strings as numbers',
      '{"os":{"bootmenu":{"timeout":"3000","enable":"yes"}}}',
      '{"os":{"bootmenu":{"enable":true,"timeout":3000}}}',
    ],
    [
      'hex in full width for a PCI address',
      '{"devices":{"disks":[{"address":{"type":"pci","domain":0,"bus":0,"slot":"0x1","function":0}},{"address":{"type":"drive","bus":"0"}}]}}',
      '{"devices":{"disks":[{"address":{"type":"pci","domain":"0x0000","bus":"0x00","slot":"0x01","function":"0x0"}},{"address":{"type":"drive","bus":0}}]}}',
    ],
    [
      'a list of one by its short form',
      '{"devices":{"disks":[{"source":{"hosts":[{"name":"a","port":"3260"}]}}]}}',
      '{"devices":{"disks":[{"source":{"host":{"name":"a","port":3260}}}]}}',
    ],
    [
      "disks in libvirt's order",
      '{"devices":{"disks":[{"target":{"dev":"vdb"}},{"target":{"dev":"vda"}}]}}',
      '{"devices":{"disks":[{"target":{"dev":"vda"}},{"target":{"dev":"vdb"}}]}}',
    ],
    [
      'XML of applications',
      '{"metadata":"<a  xmlns=\'urn:x\'> <b></b> </a>"}',
      '{"metadata":"<a xmlns=\\"urn:x\\"><b/></a>"}',
    ],
    ['keys in the order of the description', '{"vcpu":{"value":1},"name":"a"}', '{"name":"a","vcpu":{"value":1}}'],
    ['nothing is added', '{"cpu":{},"devices":{"disks":[]}}', '{"cpu":{},"devices":{"disks":[]}}'],
  ])('%s', (_, json, expected) => expect(spelled(json)).toBe(expected))
})

test.each([
  ['unknown keys are unchanged', '{"cpu":{"x":1},"__proto__":{"y":2}}', '{"cpu":{"x":1},"__proto__":{"y":2}}'],
  [
    'values of the wrong type are unchanged',
    '{"devices":{"disks":{"a":1}},"memory":64}',
    '{"memory":64,"devices":{"disks":{"a":1}}}',
  ],
  [
    'lists keep their order',
    '{"devices":{"disks":[{"target":{"dev":"vdb"}},{"target":{"dev":"vda"}}]}}',
    '{"devices":{"disks":[{"target":{"dev":"vdb"}},{"target":{"dev":"vda"}}]}}',
  ],
  [
    'a list of one remains a list',
    '{"devices":{"serials":[{"sources":[{"path":"/run/a"}]}]}}',
    '{"devices":{"serials":[{"sources":[{"path":"/run/a"}]}]}}',
  ],
])('only the spelling: %s', (_, json, expected) =>
  expect(JSON.stringify(canonicalSpelling(JSON.parse(json)))).toBe(expected),
)

/** A domain for each list of elements: with one empty item of it, and what it is in. */
function* listsOfOne(element: Element, above: readonly Element[] = []): Generator<object> {
  if (above.includes(element)) return
  for (const [key, field] of Object.entries(element.fields)) {
    if (field.at !== 'child' && field.at !== 'children') continue
    if (field.at === 'children') yield { [key]: [{}] }
    for (const below of listsOfOne(elementOf(field), [...above, element]))
      yield { [key]: field.at === 'children' ? [below] : below }
  }
}

test('only the spelling: every list of one remains at its path', () => {
  const given = [...listsOfOne(root)]
  expect(given.length).toBeGreaterThan(100)
  expect(given.map((one) => canonicalSpelling(one))).toEqual(given)
})

test('is idempotent and does not modify its input', () =>
  fc.assert(
    fc.property(domains(), (domain) => {
      const before = structuredClone(domain)
      const once = canonical(domain)
      expect(domain).toEqual(before)
      expect(canonical(once)).toEqual(once)
      expect(() => writeDomain(once)).not.toThrow()
    }),
    { numRuns: 300 },
  ))

test('a thread that is scheduled again and again is not written once for each', () => {
  const vcpuscheds = Array.from({ length: 1000 }, () => ({ vcpus: '0-4095', scheduler: 'batch' as const }))
  expect(canonical({ vcpu: { value: 4096 }, cputune: { vcpuscheds } }).cputune?.vcpuscheds).toHaveLength(1000)
})

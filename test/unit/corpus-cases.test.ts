import { describe, expect, test } from 'vitest'
import { validateDomain } from '../../api/domain/validate.ts'
import { elementOf, type Element } from '../../api/domain/description.ts'
import { domain as root } from '../../api/domain/domain.ts'
import { readDomain, writeDomain } from '../../api/domain/xml.ts'
import { isRecord } from '../../api/schema.ts'
import { readOwnCases, recordedCapabilities as capabilities, wholeDomain } from '../corpus/cases.ts'
import { parse } from '../corpus/corpus.ts'
import { firstDifference } from '../corpus/difference.ts'
import { causesOf, complete, printed } from '../libvirt/disagreement.ts'
import { xmlTree } from '../xml-tree.ts'

const cases = readOwnCases()
const stored = cases.flatMap(({ stored: xml, ...one }) => (xml === undefined ? [] : [{ ...one, xml }]))
const refused = cases.filter((one) => one.refused !== undefined)

test('every case has the result of a libvirt', () => {
  const unanswered = cases.filter((one) => (one.stored === undefined) === (one.refused === undefined))
  expect(unanswered.map(({ name }) => name)).toEqual([])
  expect([stored.length > 100, refused.length > 40]).toEqual([true, true])
})

describe('definitions that libvirt stored', () => {
  test.each(stored)('$name: is not refused', (one) => {
    const domain = wholeDomain(one)
    expect(validateDomain(domain)).toEqual([])
    expect(causesOf(domain, capabilities)).toEqual([])
  })

  test.each(stored)('$name: completion adds what libvirt added', ({ xml, differs, ...one }) => {
    const difference = firstDifference(xml, printed(complete(wholeDomain(one), capabilities), capabilities))
    expect(difference?.path.replaceAll(/\[\d+\]/g, '')).toBe(differs?.path)
  })

  test.each(stored)('$name: completion adds nothing to what libvirt stored', ({ xml }) => {
    expect(firstDifference(xml, printed(complete(parse(xml), capabilities), capabilities))).toBeUndefined()
  })

  test.each(stored)('$name: XML to JSON to XML is the same tree', ({ xml, ...one }) => {
    expect(xmlTree(writeDomain(parse(xml)))).toEqual(xmlTree(xml))
    const written = writeDomain(wholeDomain(one))
    const read = readDomain(written)
    expect(xmlTree(writeDomain('domain' in read ? read.domain : {}))).toEqual(xmlTree(written))
  })
})

test.each(refused)('$name: is refused, as by libvirt', (one) => {
  const domain = wholeDomain(one)
  const malformed = validateDomain(domain)
  const causes = malformed.length > 0 ? malformed : causesOf(domain, capabilities)
  expect(causes.map(({ rule }) => rule)).toEqual(one.rules)
})

/** Elements that occur in no domain that this libvirt stores, with the reason. */
const impossible: { readonly [path: string]: string } = {
  'memtune.minGuarantee': 'refused for QEMU',
  'os.nvram.source.encryption.cipher': 'refused for disks: the image states it',
  'os.nvram.source.encryption.ivgen': 'refused for disks: the image states it',
  'features.gic': 'refused for x86_64',
  'devices.interfaces.routes': 'refused for QEMU',
  'devices.hostdevs.source.adapter.parentaddr': 'its schema allows it for storage pools only',
  launchSecurity: 'that QEMU encrypts no memory',
}

test('every element of the description occurs in a case that libvirt stored', () => {
  const used = new Set<Element>()
  const use = (element: Element, value: unknown): void => {
    if (!isRecord(value)) return
    used.add(element)
    for (const [key, field] of Object.entries(element.fields)) {
      if (field.at !== 'child' && field.at !== 'children') continue
      const single = field.at === 'children' && field.single !== undefined ? value[field.single] : undefined
      const held = value[key] ?? single
      for (const item of Array.isArray(held) ? held : [held]) use(elementOf(field), item)
    }
  }
  for (const one of stored) use(root, wholeDomain(one))
  const unused: string[] = []
  const seen = new Set<Element>()
  const visit = (element: Element, path: string): void => {
    if (seen.has(element)) return
    seen.add(element)
    if (!used.has(element)) unused.push(path)
    for (const [key, field] of Object.entries(element.fields)) {
      if (field.at === 'child' || field.at === 'children') visit(elementOf(field), path === '' ? key : `${path}.${key}`)
    }
  }
  visit(root, '')
  expect(unused).toEqual(Object.keys(impossible))
})

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { canonical } from '../../api/domain/canonical.ts'
import { validateDomain } from '../../api/domain/validate.ts'
import { readDomain, writeDomain } from '../../api/domain/xml.ts'
import { xmlTree } from '../xml-tree.ts'

const corpus = process.env['LIBVIRT_CORPUS']
const folder = join(corpus ?? '', 'complete')
const files = corpus === undefined ? [] : readdirSync(folder).filter((name) => name.endsWith('.xml'))
const leftOut =
  'left out: LIBVIRT_CORPUS names no folder with complete/NAME.in.xml and .out.xml, made of tests/qemuxmlconfdata of libvirt'

test.each([corpus === undefined ? leftOut : "libvirt's own test domains exist"])('%s', () =>
  expect(existsSync(folder)).toBe(corpus !== undefined),
)

test.each(files)('%s: XML to JSON to XML is the same tree, and the JSON is valid', (name) => {
  const xml = readFileSync(join(folder, name), 'utf8')
  const read = readDomain(xml)
  const domain = 'domain' in read ? read.domain : {}
  expect(read).toEqual({ domain })
  expect(xmlTree(writeDomain(domain))).toEqual(xmlTree(xml))
  expect(readDomain(writeDomain(domain))).toEqual(read)
  expect(validateDomain(domain)).toEqual([])
  expect(canonical(canonical(domain))).toEqual(canonical(domain))
})

test.each(files.filter((name) => name.endsWith('.out.xml')))('%s: output of libvirt is canonical', (name) => {
  const xml = readFileSync(join(folder, name), 'utf8')
  const read = readDomain(xml)
  expect(xmlTree(writeDomain(canonical('domain' in read ? read.domain : {})))).toEqual(xmlTree(xml))
})

import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { canonical } from '../../api/domain/canonical.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { readDomain, writeDomain } from '../../api/domain/xml.ts'
import { bundledCapabilities } from '../../completion/capabilities.ts'
import { fillDefaults } from '../../completion/defaults/defaults.ts'
import { firstDifference, type Difference } from './difference.ts'

/**
 * libvirt's own tests: a folder `complete/` with `NAME.in.xml`, a domain as a user writes it, and `NAME.out.xml`, the
 * same domain after libvirt has defined it. From libvirt's source: tests/qemuxmlconfdata, `NAME.xml` and
 * `NAME.x86_64-latest.xml`, of the cases that tests/qemuxmlconftest.c runs with the newest QEMU on x86_64.
 */
export interface Case {
  readonly name: string
  readonly before: string
  readonly after: string
}

export const readCases = (folder: string): Case[] => {
  const path = join(folder, 'complete')
  return readdirSync(path)
    .filter((file) => file.endsWith('.in.xml'))
    .map((file) => file.slice(0, -'.in.xml'.length))
    .toSorted()
    .map((name) => ({
      name,
      before: readFileSync(join(path, `${name}.in.xml`), 'utf8'),
      after: readFileSync(join(path, `${name}.out.xml`), 'utf8'),
    }))
}

export const parse = (xml: string): Domain => {
  const read = readDomain(xml)
  if ('causes' in read)
    throw new Error(`not a domain: ${read.causes.map(({ field, message }) => `${field} ${message}`).join('; ')}`)
  return read.domain
}

export const complete = (domain: Domain): Domain =>
  fillDefaults(domain, { capabilities: bundledCapabilities, entropy: { uid: 'corpus' } }).domain

/** The first difference between our completion of `xml` and libvirt's; undefined if they are equal. */
export const difference = (xml: string, expected: string): Difference | undefined =>
  firstDifference(expected, writeDomain(canonical(complete(parse(xml)))))

import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { readCapabilities, type Capabilities } from '../../api/capabilities.ts'
import type { Domain } from '../../api/domain/domain.ts'
import recorded from './capabilities.json' with { type: 'json' }

/**
 * A domain of our own with the answer of a real libvirt, recorded by `npm run judge:cases`: one file of cases/. Unlike
 * libvirt's own tests, these cases are part of the project, so that no checkout passes without any answer of libvirt.
 */
export interface OwnCase {
  readonly name: string
  /** What the case is about; `wholeDomain` adds what every domain needs. */
  readonly domain: Domain
  /** The definition that libvirt stored; absent where it refused the domain. */
  readonly stored?: string
  /** Why libvirt refused the domain, and the rules of ours that do. */
  readonly refused?: string
  readonly rules?: readonly string[]
  /** Why completion differs from what libvirt stored, and where first. */
  readonly differs?: { readonly path: string; readonly reason: string }
}

export const casesFolder = join(import.meta.dirname, 'cases')

export const readOwnCases = (): OwnCase[] =>
  readdirSync(casesFolder)
    .filter((file) => file.endsWith('.yaml'))
    .toSorted()
    .map((file) => ({
      name: file.slice(0, -'.yaml'.length),
      ...(parse(readFileSync(join(casesFolder, file), 'utf8')) as Omit<OwnCase, 'name'>),
    }))

/** The libvirt and QEMU that answered. */
export const recordedCapabilities: Capabilities = readCapabilities(recorded)

export const wholeDomain = ({ domain }: Pick<OwnCase, 'domain'>): Domain => ({
  type: 'qemu',
  name: 'judged',
  memory: { unit: 'MiB', value: 512 },
  ...domain,
  os: { ...domain.os, type: { os: 'hvm', ...domain.os?.type } },
})

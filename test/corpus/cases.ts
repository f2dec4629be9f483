import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { readCapabilities, type Capabilities } from '../../api/capabilities.ts'
import type { Domain } from '../../api/domain/domain.ts'
import recorded from './capabilities.json' with { type: 'json' }

/**
 * A domain of our own with the recorded answer of a real libvirt (`npm run record-cases`): one file of cases/. Unlike
 * libvirt's own tests, these cases are part of the project, so that every checkout is compared with libvirt.
 */
export interface OwnCase {
  readonly name: string
  /** The subject of the case; `wholeDomain` adds what every domain needs. */
  readonly domain: Domain
  /** The definition that libvirt stored; absent if it refused the domain. */
  readonly stored?: string
  /** Why libvirt refused the domain, and which of our rules refuse it. */
  readonly refused?: string
  readonly rules?: readonly string[]
  /** Why completion differs from what libvirt stored, and the first path where it does. */
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
  name: 'example',
  memory: { unit: 'MiB', value: 512 },
  ...domain,
  os: { ...domain.os, type: { os: 'hvm', ...domain.os?.type } },
})

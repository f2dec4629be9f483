import { join } from 'node:path'
import type { Domain } from '../api/domain/domain.ts'
import { nvramDirectory } from '../api/nvram-directory.ts'

/**
 * The domain with the variables of its firmware in `directory`: libvirt's directory for them is not writable in the
 * pod. A file elsewhere, which a cluster preset grants, is not changed.
 */
export function placeDeviceState(domain: Domain, directory: string): Domain {
  const { os } = domain
  const path = os?.nvram?.value
  if (!path?.startsWith(`${nvramDirectory}/`)) return domain
  const value = join(directory, path.slice(nvramDirectory.length))
  return { ...domain, os: { ...os, nvram: { ...os?.nvram, value } } }
}

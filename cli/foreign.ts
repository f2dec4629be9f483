import { group } from '../api/object.ts'
import type { Manifest } from '../inventory/manifests.ts'

/** Whether a manifest is of another API than virtset's. */
export const isForeign = ({ apiVersion }: Manifest): boolean =>
  typeof apiVersion === 'string' && !apiVersion.startsWith(`${group}/`)

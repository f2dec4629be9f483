import { join } from 'node:path'
import type { Volume } from '../api/volume.ts'
import { isLandlockSupported } from './landlock.ts'
import { kindOf } from './path-kind.ts'
import { Refused } from './refused.ts'
import type { VolumeSource } from './render.ts'
import type { VolumeDirectories } from './volume.ts'

/**
 * The directory of a claim that a file system shares with the guest. images/launcher/virtiofsd confines virtiofsd to it.
 * @throws Refused VolumeUnavailable, with a message for the user
 */
export async function prepareShared(
  { name, persistentVolumeClaim: claim }: Volume,
  { files }: Pick<VolumeDirectories, 'files'>,
): Promise<VolumeSource> {
  const refuse = (message: string): never => {
    throw new Refused('VolumeUnavailable', `volume "${name}": ${message}`)
  }
  const path = join(files, name)
  if (claim === undefined || (await kindOf(path)) !== 'directory') {
    return refuse('a file system of the guest requires a claim with volumeMode Filesystem')
  }
  if (!(await isLandlockSupported([path]))) {
    return refuse('the node cannot confine virtiofsd: it requires Linux 5.19 or later with Landlock enabled')
  }
  return { kind: 'directory', path, isReadOnly: claim.readOnly ?? false }
}

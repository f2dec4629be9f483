import { chown, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { attempt } from '../../cluster/command.ts'
import type { TestCluster } from '../cluster/cluster.ts'
import { claimedNames } from './operations.ts'

/** The UID of every process in a VM's pod. */
const launcherUser = 107

/** Creates the disks of the claims. @returns their directory, and a function that removes disks and volumes */
export async function prepareStorage(cluster: TestCluster): Promise<{ path: string; remove: () => Promise<void> }> {
  const path = join(cluster.state, `storage-${cluster.namespace}`)
  for (const name of claimedNames) {
    const image = join(path, name, 'disk.img')
    await mkdir(join(path, name), { recursive: true })
    await writeFile(image, Buffer.alloc(1024 * 1024))
    await chown(image, launcherUser, launcherUser)
  }
  const remove = async () => {
    // After a failure, the API server may be unavailable, which must not hide the failure.
    await attempt([...cluster.command, 'delete', 'pv', '-l', `chaos=${cluster.namespace}`, '--wait=false'])
    await rm(path, { recursive: true })
  }
  return { path, remove }
}

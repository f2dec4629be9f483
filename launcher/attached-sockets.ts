import { mkdir, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { AttachedSockets } from './attached-volumes.ts'
import { kindOf } from './path-kind.ts'

/**
 * The sockets of the pods that serve claims, which the handler moves into a directory of the launcher's, named by the
 * UIDs of these pods. QEMU connects to a link in another one, named by the volume, so that it finds the socket of
 * another pod when the first one is gone.
 * @param handed the directory that the handler moves sockets to
 */
export async function createAttachedSockets(handed: string, links: string): Promise<AttachedSockets> {
  await mkdir(handed, { recursive: true })
  await mkdir(links, { recursive: true })
  const socketOf = (podUID: string) => join(handed, `${podUID}.sock`)
  const pathOf = (name: string) => join(links, `${name}.sock`)
  return {
    pathOf,
    async connect(name, podUID) {
      const socket = socketOf(podUID)
      if ((await kindOf(socket)) !== 'socket') return false
      const temporary = `${pathOf(name)}.tmp`
      await rm(temporary, { force: true })
      await symlink(socket, temporary)
      await rename(temporary, pathOf(name))
      return true
    },
    async remove(name, podUID) {
      await rm(pathOf(name), { force: true })
      await rm(socketOf(podUID), { force: true })
    },
  }
}

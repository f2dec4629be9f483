import { lstat, mkdir, readdir, readlink, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { AttachedSockets } from './attached-volumes.ts'
import { kindOf } from './path-kind.ts'

/** So many sockets that no volume uses now are kept, because their pods can serve it again. */
const mostUnused = 64

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
      await removeOldest(handed, links)
      return true
    },
    remove: (name) => rm(pathOf(name), { force: true }),
    forget: (podUID) => rm(socketOf(podUID), { force: true, recursive: true }),
  }
}

async function removeOldest(handed: string, links: string): Promise<void> {
  const names = await readdir(handed)
  if (names.length <= mostUnused) return
  const linked = await Promise.all((await readdir(links)).map((name) => readlink(join(links, name))))
  const unused = names.map((name) => join(handed, name)).filter((path) => !linked.includes(path))
  const dated = await Promise.all(unused.map(async (path) => ({ path, movedAt: (await lstat(path)).ctimeMs })))
  const oldest = dated.toSorted((one, other) => one.movedAt - other.movedAt).slice(0, -mostUnused)
  for (const { path } of oldest) await rm(path, { force: true, recursive: true })
}

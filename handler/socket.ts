import { constants, promises as fs } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { attachmentSocketName, attachmentSocketVolume } from '../api/attachment-path.ts'
import { attachedSocketDirectory, launcherSocketName } from '../runtime/launcher-api.ts'

/** Linux's O_PATH: a descriptor that only refers to an inode. Node has no constant for it. */
const O_PATH = 0o10000000

const uidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** The required type of a path's last step; any other type is treated as absent. */
type Wanted = 'directory' | 'socket' | 'file'

const emptyVolume = (name: string) => ['volumes', 'kubernetes.io~empty-dir', name]
const socketVolume = emptyVolume('sockets')
const attachmentVolume = emptyVolume(attachmentSocketVolume)

/**
 * A handle on the launcher's socket of the pod `podUID`; undefined while it does not exist. Connect to
 * `pathOf(handle)`, then close it.
 *
 * The volume belongs to the launcher, and a guest that broke out of QEMU can create anything there. So no symbolic link
 * is followed: each step is opened with O_NOFOLLOW relative to the descriptor of the previous one, and the type of the
 * last is checked on the same descriptor that is connected to.
 */
export async function openLauncherSocket(kubeletRoot: string, podUID: string): Promise<FileHandle | undefined> {
  return walk(kubeletRoot, podUID, [...socketVolume, launcherSocketName], 'socket')
}

/**
 * Whether the kubelet still holds the volume of the socket, which it removes only after the containers of the pod have
 * ended. The directories above it belong to root, and are not mounted into the pod.
 */
export const hasSocketVolume = (kubeletRoot: string, podUID: string): Promise<boolean> =>
  hasVolume(kubeletRoot, podUID, socketVolume)

/** The same for a pod that serves a claim to a launcher. */
export const hasAttachmentVolume = (kubeletRoot: string, podUID: string): Promise<boolean> =>
  hasVolume(kubeletRoot, podUID, attachmentVolume)

/** @throws if the directory of all pods is missing: then nothing shows that the containers have ended */
async function hasVolume(kubeletRoot: string, podUID: string, steps: readonly string[]): Promise<boolean> {
  const handle = await walk(kubeletRoot, podUID, steps, 'directory')
  await handle?.close()
  if (handle === undefined) await fs.access(join(kubeletRoot, 'pods'))
  return handle !== undefined
}

/**
 * Moves the socket of the pod `podUID`, which serves a claim, to the launcher in the pod `launcherUID`, under the first
 * one's UID. A socket of a container that was started again takes the place of the one before.
 *
 * Both volumes belong to processes that a guest can have taken over, and their directories can change meanwhile. What is
 * moved is only a name from one directory to another, each by its descriptor: if it is not a socket any more, the launcher
 * gets what it could have made itself.
 * @returns whether the launcher has a socket of this pod
 */
export async function placeAttachmentSocket(
  kubeletRoot: string,
  { podUID, launcherUID }: { readonly podUID: string; readonly launcherUID: string },
): Promise<boolean> {
  const to = await walk(kubeletRoot, launcherUID, [...socketVolume, attachedSocketDirectory], 'directory')
  if (to === undefined) return false
  try {
    const from = await walk(kubeletRoot, podUID, attachmentVolume, 'directory')
    try {
      const name = `${podUID}.sock`
      if (from !== undefined && (await isSocketIn(from, attachmentSocketName)))
        await fs.rename(`${pathOf(from)}/${attachmentSocketName}`, `${pathOf(to)}/${name}`)
      return await isSocketIn(to, name)
    } finally {
      await from?.close()
    }
  } finally {
    await to.close()
  }
}

async function isSocketIn(directory: FileHandle, name: string): Promise<boolean> {
  const handle = await stepInto(directory, name, 'socket')
  await handle?.close()
  return handle !== undefined
}

/**
 * The kubelet's own hosts file of the pod, mounted into it. The launcher cannot change it, but a container that runs as
 * root can, such as an ephemeral one.
 */
export async function openPodHosts(kubeletRoot: string, podUID: string): Promise<FileHandle | undefined> {
  return walk(kubeletRoot, podUID, ['etc-hosts'], 'file')
}

/**
 * A file that the pod `podUID` has written to its volume `profile`; undefined while it does not exist.
 * @throws if it is longer than `maxBytes`
 */
export async function readProfileFile(
  kubeletRoot: string,
  podUID: string,
  name: string,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const handle = await walk(kubeletRoot, podUID, ['volumes', 'kubernetes.io~empty-dir', 'profile', name], 'file')
  if (handle === undefined) return undefined
  try {
    const { size } = await handle.stat()
    if (size > maxBytes) throw new Error(`${name} of the profile pod is longer than ${maxBytes} bytes`)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(size), 0, size, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

/** A path to the inode of the handle, even if the directory changes meanwhile. */
export function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`
}

async function walk(
  kubeletRoot: string,
  podUID: string,
  steps: readonly string[],
  wanted: Wanted,
): Promise<FileHandle | undefined> {
  if (!uidPattern.test(podUID)) throw new Error(`not a pod uid: ${JSON.stringify(podUID)}`)
  // The root is the operator's setting and can be a link.
  let at = await open(kubeletRoot, O_PATH | constants.O_DIRECTORY)
  for (const [index, step] of ['pods', podUID, ...steps].entries()) {
    if (at === undefined) return undefined
    const isLast = index === steps.length + 1
    const from: FileHandle = at
    try {
      at = await stepInto(from, step, isLast ? wanted : 'directory')
    } finally {
      await from.close()
    }
  }
  return at
}

async function stepInto(from: FileHandle, name: string, wanted: Wanted): Promise<FileHandle | undefined> {
  const readable = wanted === 'file' ? constants.O_RDONLY | constants.O_NONBLOCK : O_PATH
  const handle = await open(`${pathOf(from)}/${name}`, readable | constants.O_NOFOLLOW)
  if (handle === undefined) return undefined
  let isWanted = false
  try {
    const stat = await handle.stat()
    isWanted = { directory: stat.isDirectory(), socket: stat.isSocket(), file: stat.isFile() }[wanted]
    return isWanted ? handle : undefined
  } finally {
    if (!isWanted) await handle.close()
  }
}

async function open(path: string, flags: number): Promise<FileHandle | undefined> {
  try {
    return await fs.open(path, flags)
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ELOOP'))
      return undefined
    throw error
  }
}

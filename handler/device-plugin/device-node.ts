import { execFile } from 'node:child_process'
import { chmod, lstat, mkdir, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import type { DeviceNumbers } from './device.ts'

/** QEMU in a launcher pod has neither the owner nor a group of the host's device. */
const mode = 0o666

/**
 * Creates a device node for the container runtime to copy. It replaces a file that is not this device. Only root can
 * enter its directory. Requires CAP_MKNOD, and no permission to open the device.
 */
export async function ensureDeviceNode(path: string, numbers: DeviceNumbers): Promise<void> {
  if (await isDeviceNode(path, numbers)) return
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await chmod(dirname(path), 0o700)
  const unfinished = `${path}.unfinished`
  await rm(unfinished, { force: true })
  const { major, minor } = numbers
  // Node has no mknod. coreutils sets exactly this mode, whatever the umask.
  await promisify(execFile)('mknod', ['-m', mode.toString(8), unfinished, 'c', String(major), String(minor)])
  await rename(unfinished, path)
}

/** Whether a path is a node of this device that every user can open. */
export async function isDeviceNode(path: string, numbers: DeviceNumbers): Promise<boolean> {
  try {
    const stat = await lstat(path)
    return stat.isCharacterDevice() && stat.rdev === encode(numbers) && (stat.mode & 0o7777) === mode
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false
    throw error
  }
}

/** Linux's `makedev`, for numbers of up to 12 and 20 bits. */
const encode = ({ major, minor }: DeviceNumbers): number =>
  (minor & 0xff) + (major & 0xfff) * 0x100 + (minor >>> 8) * 0x10_0000

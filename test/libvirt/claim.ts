import { execFile } from 'node:child_process'
import { chown, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { eventually } from '../until.ts'
import type { RunningLauncher } from './launcher.ts'
import { libvirtRootfs, uid } from './rootfs.ts'

/** A path of the test, as the launcher sees it. */
export const inside = (path: string): string => path.slice(libvirtRootfs().length)

export async function qemuImg(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('chroot', [libvirtRootfs(), 'qemu-img', ...args])
  return stdout
}

/** Makes a file a block device. Returns that of the host; it belongs to the caller. */
export async function attachLoop(backing: string): Promise<string> {
  return (await promisify(execFile)('losetup', ['--find', '--show', backing])).stdout.trim()
}

export async function detachLoop(device: string): Promise<void> {
  await promisify(execFile)('losetup', ['--detach', device])
}

/** Makes a device of the host a volume, by a device node of its own. @param blocks the directory of the pod for devices */
export async function addBlockVolume(blocks: string, device: string, name = 'root'): Promise<void> {
  const { rdev } = await stat(device)
  const node = join(blocks, name)
  await promisify(execFile)('mknod', ['-m', '660', node, 'b', `${rdev >> 8}`, `${rdev & 255}`])
  await chown(node, uid, uid)
}

/** The guest with the program `echo` runs. */
export async function guestEchoes(launcher: RunningLauncher): Promise<void> {
  const console = await launcher.console()
  let text = ''
  console.on('data', (chunk: Buffer) => (text += chunk.toString()))
  console.write('hello')
  await eventually('the guest echoes', () => text.includes('hello'))
  console.destroy()
}

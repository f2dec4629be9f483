import { execFile } from 'node:child_process'
import { truncate, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { libvirtRootfs } from './rootfs.ts'

/** Debian's boot loaders. shim is signed by Microsoft, and starts a GRUB that Debian has signed. */
const loaders = {
  signed: {
    'BOOTX64.EFI': '/usr/lib/shim/shimx64.efi.signed',
    'GRUBX64.EFI': '/usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed',
  },
  unsigned: { 'BOOTX64.EFI': '/usr/lib/grub/x86_64-efi/monolithic/gcdx64.efi' },
} as const

export type EfiLoader = keyof typeof loaders

const sectors = 32_768

/**
 * Writes a raw disk from which UEFI starts a boot loader: a FAT16 file system without partitions.
 * @param path below the root file system of libvirt, as the test sees it
 */
export async function makeEfiDisk(path: string, loader: EfiLoader): Promise<void> {
  const rootfs = libvirtRootfs()
  const image = path.slice(rootfs.length)
  const run = (command: string, ...args: readonly string[]) =>
    promisify(execFile)('chroot', [rootfs, command, '-i', image, ...args])
  await writeFile(path, '')
  await truncate(path, sectors * 512)
  await run('mformat', '-T', `${sectors}`, '-h', '16', '-s', '63', '::')
  await run('mmd', '::EFI', '::EFI/BOOT')
  for (const [name, file] of Object.entries(loaders[loader])) await run('mcopy', file, `::EFI/BOOT/${name}`)
}

import { execFile } from 'node:child_process'
import { truncate, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { libvirtRootfs } from './rootfs.ts'

const debianGrub = '/usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed'

/**
 * Debian's boot loaders. shim is signed by Microsoft, and starts a GRUB that Debian has signed. By itself, that GRUB is
 * signed with a key that the firmware does not know.
 */
const loaders = {
  signed: {
    'BOOTX64.EFI': '/usr/lib/shim/shimx64.efi.signed',
    'GRUBX64.EFI': debianGrub,
  },
  otherKey: { 'BOOTX64.EFI': debianGrub },
  unsigned: { 'BOOTX64.EFI': '/usr/lib/grub/x86_64-efi/monolithic/gcdx64.efi' },
} as const

export type EfiLoader = keyof typeof loaders

const sectors = 32_768

/** Starts the Linux guest from its own disk, and lets its kernel print what it finds. */
const grubConfiguration = `search --label --set=root guest-root
linux /boot/vmlinuz root=LABEL=guest-root console=ttyS0 net.ifnames=0 mitigations=off
initrd /boot/initrd
boot
`

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
  await run('mmd', '::EFI', '::EFI/BOOT', '::boot', '::boot/grub')
  for (const [name, file] of Object.entries(loaders[loader])) await run('mcopy', file, `::EFI/BOOT/${name}`)
  const copied = run('mcopy', '-', '::boot/grub/grub.cfg')
  copied.child.stdin?.end(grubConfiguration)
  await copied
}

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { keyOf } from './key.ts'
import type { Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** What the guest prints on its serial console when it lives. */
export const guestGreeting = 'virtset demo guest is up'

/**
 * GRUB is the guest: an interpreter of commands that fits the example's 64 MB, boots in a second under emulation, talks on the
 * serial line, and powers the machine off on `halt`.
 */
const early = `serial --unit=0 --speed=115200
terminal_input serial
terminal_output serial
echo "${guestGreeting}: 'halt' powers it off"
normal
`
const modules = ['biosdisk', 'serial', 'terminal', 'halt', 'reboot', 'echo', 'normal', 'part_msdos', 'lspci', 'minicmd']
const grub = '/usr/lib/grub/i386-pc'

/** The guest's disk image, 2 MiB, from Debian's GRUB. Gives back its path. */
export async function guestDisk(step: Step, settings: Settings): Promise<string> {
  const version = (await step.run(['dpkg-query', '--show', 'grub-pc-bin'])).trim()
  const directory = join(settings.cache, `guest-${keyOf(early, ...modules, version)}`)
  const disk = join(directory, 'disk.img')
  if (existsSync(disk)) return disk
  mkdirSync(directory, { recursive: true })
  const [config, core] = [join(directory, 'early.cfg'), join(directory, 'core.img')]
  writeFileSync(config, early)
  await step.run(['grub-mkimage', '-O', 'i386-pc', '-p', '(memdisk)', '-c', config, '-o', core, ...modules])
  const size = 2 * 1024 * 1024
  const image = Buffer.alloc(size)
  readFileSync(join(grub, 'boot.img')).copy(image, 0)
  // boot.img looks for the rest in the sector behind itself.
  readFileSync(core).copy(image, 512)
  writeFileSync(`${disk}.unfinished`, image)
  renameSync(`${disk}.unfinished`, disk)
  rmSync(core)
  return disk
}

import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

import { filesBelow, keyOf, keyOfFiles } from './key.ts'
import type { Step } from './progress.ts'
import { suite } from './rootfs.ts'
import type { Settings } from './settings.ts'

const folder = 'images/linux-guest'

/**
 * The disk of a small Linux: sshd, the guest agent, DHCP, NoCloud seeds, a root that grows. Debian's packages are
 * unpacked without being configured, and `images/linux-guest/build` runs between them, so that the host needs none of
 * its tools. Built once in the cache (30 s, 35 MB). Returns the path of a qcow2 file.
 */
export async function ensureLinuxGuest(step: Step, settings: Settings): Promise<string> {
  const key = keyOf(suite, keyOfFiles(settings.checkout, filesBelow(settings.checkout, folder, isInput)))
  const directory = join(settings.cache, `linux-guest-${key}`)
  const disk = join(directory, 'disk.qcow2')
  if (existsSync(disk)) return disk
  const unfinished = `${directory}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished, { recursive: true })
  const tree = join(unfinished, 'tree')
  const packages = readFileSync(join(settings.checkout, folder, 'packages'), 'utf8')
    .trim()
    .split('\n')
  step.show("unpacking Debian's packages for the Linux guest")
  await step.run(
    [
      'mmdebstrap',
      '--variant=extract',
      '--aptopt=APT::Install-Recommends "false"',
      `--include=${packages.join(',')}`,
      suite,
      tree,
    ],
    { onLine: (line) => step.show(line.slice(0, 60)) },
  )
  cpSync(join(settings.checkout, folder), join(tree, 'guest'), { recursive: true, verbatimSymlinks: true })
  step.show('building the disk of the Linux guest')
  await step.run(['chroot', tree, '/usr/bin/dash', '/guest/build'])
  renameSync(join(tree, 'guest/disk.qcow2'), join(unfinished, 'disk.qcow2'))
  rmSync(tree, { recursive: true })
  renameSync(unfinished, directory)
  return disk
}

const isInput = (path: string) => !path.endsWith('/Containerfile')

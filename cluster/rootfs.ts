import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'

import { keyOf, keyOfFiles } from './key.ts'
import type { Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** The Debian release in the images: the first with libvirt 11 and QEMU 10. */
export const suite = 'trixie'

/**
 * Packages that tests need in addition to the launcher's: virsh for comparison, SPICE with its video cards, OpenGL, and
 * boot loaders with and without a signature.
 */
const additionalPackages = [
  'libvirt-clients',
  'qemu-system-modules-spice',
  'qemu-system-modules-opengl',
  'mtools',
  'shim-signed',
  'grub-efi-amd64-signed',
]

/** Files from which `install` makes the passt of launcher pods, which requires a compiler. */
const passtFolder = 'images/launcher/passt'
const passtCompiler = ['gcc', 'libc6-dev']

/** The virtiofsd of launcher pods: its files, and where libvirt looks for them. */
const virtiofsdFolder = 'images/launcher/virtiofsd'
const virtiofsdFiles = [
  ['virtiofsd', 'usr/local/libexec'],
  ['50-virtiofsd.json', 'etc/qemu/vhost-user'],
] as const

/** The UID of everything in a launcher pod; libvirtd requires it to have a name. */
const launcherUser = 107

/** The Debian packages of the launcher's image, one per line. The Containerfile reads the same file. */
function launcherPackages(settings: Settings): string[] {
  return readFileSync(join(settings.checkout, 'images/launcher/packages'), 'utf8').trim().split('\n')
}

/**
 * The root file system with the libvirt that validates our domains in tests: the launcher's packages and
 * `additionalPackages`. Use it with `chroot` as UID 107. Built once in the cache (30 s, 400 MB). Returns its path.
 */
export async function ensureRootfs(step: Step, settings: Settings): Promise<string> {
  const packages = [...launcherPackages(settings), ...additionalPackages, ...passtCompiler]
  const passt = join(settings.checkout, passtFolder)
  const passtKey = keyOfFiles(passt, readdirSync(passt))
  const virtiofsd = join(settings.checkout, virtiofsdFolder)
  const virtiofsdKey = keyOfFiles(virtiofsd, readdirSync(virtiofsd))
  const directory = join(settings.cache, `rootfs-${keyOf(suite, ...packages, passtKey, virtiofsdKey)}`)
  if (existsSync(directory)) return directory
  const unfinished = `${directory}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(settings.cache, { recursive: true })
  const installPasst = [
    `--customize-hook=copy-in ${passt} /tmp`,
    '--customize-hook=chroot "$1" /tmp/passt/install',
    '--customize-hook=rm -r "$1/tmp/passt"',
  ]
  await step.run([...mmdebstrap, ...installPasst, `--include=${packages.join(',')}`, suite, unfinished], {
    onLine: (line) => step.show(line.slice(0, 60)),
  })
  for (const [name, folder] of virtiofsdFiles) {
    mkdirSync(join(unfinished, folder), { recursive: true })
    copyFileSync(join(virtiofsd, name), join(unfinished, folder, name))
  }
  const user = `launcher:x:${launcherUser}:${launcherUser}::/nonexistent:/usr/sbin/nologin\n`
  appendFileSync(join(unfinished, 'etc/passwd'), user)
  appendFileSync(join(unfinished, 'etc/group'), `launcher:x:${launcherUser}:\n`)
  renameSync(unfinished, directory)
  step.show('built by mmdebstrap')
  return directory
}

/** A base image without a registry: the smallest Debian that can install packages. Returns the path of a tar file. */
export async function ensureBaseTar(step: Step, settings: Settings): Promise<string> {
  const path = join(settings.cache, `base-${suite}.tar`)
  if (existsSync(path)) return path
  mkdirSync(settings.cache, { recursive: true })
  const unfinished = `${path}.unfinished.tar`
  await step.run([...mmdebstrap, '--include=ca-certificates', suite, unfinished], {
    onLine: (line) => step.show(line.slice(0, 60)),
  })
  renameSync(unfinished, path)
  return path
}

const mmdebstrap = ['mmdebstrap', '--variant=minbase', '--aptopt=APT::Install-Recommends "false"']

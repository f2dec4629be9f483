import { execFile } from 'node:child_process'
import { opendir, realpath, rename, rm, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { quantityValue } from '../api/quantity.ts'
import { type ImageSource, isPathInImage } from '../api/image-source.ts'
import { type ImageVolume, largestUnset } from '../api/volume.ts'
import { type Disk, examineDisk } from './disk-format.ts'
import { writingTo } from './no-space.ts'
import { Refused } from './refused.ts'

/** A backing image that QEMU opens read-only. */
export interface Backing {
  readonly path: string
  readonly format: Disk['format']
}

interface ImageDirectories {
  /** Where the container image is mounted, read-only. */
  readonly image: string
  /** An empty directory for what the guest writes. */
  readonly changes: string
}

/** The folder of the disk in images without `path`, as in KubeVirt's containerDisk images. */
const diskFolder = 'disk'
/** At most this many names are listed in a message. */
const mostNames = 5
/** What the file for the guest's changes has at first: 196 KiB. */
const overlayBytes = 256n * 1024n

/**
 * Finds the disk in a container image, and creates the qcow2 file for what the guest writes unless it exists.
 * @throws Refused VolumeUnavailable, with a message for the user
 */
export async function prepareImageDisk(
  name: string,
  image: ImageVolume,
  directories: ImageDirectories,
): Promise<{ readonly path: string; readonly backing: Backing }> {
  const refuse = refuserOf(name, image)
  const { shownPath, bytes: bytesInImage, ...backing } = await findImageDisk(name, image, directories.image)
  const bytes = sizeOf(image, bytesInImage, (fault) => refuse(`${shownPath} ${fault}`))
  const path = join(directories.changes, 'disk.qcow2')
  const place = { name: 'the disk of the node', directory: directories.changes, bytes: () => overlayBytes }
  const created = writingTo(place, () => createOverlay(path, backing, bytes))
  await created.catch((error: unknown) => refuse(wordsOf(error), error))
  return { path, backing }
}

/** A disk in an image, and its path in the image for messages. */
export interface FoundDisk extends Backing {
  readonly bytes: bigint
  readonly shownPath: string
}

/**
 * Finds the disk in a container image. The image can be hostile: the disk must be a file of the image itself, and
 * nothing opens it before its header was examined.
 * @throws Refused VolumeUnavailable, with a message for the user
 */
export async function findImageDisk(name: string, image: ImageSource, directory: string): Promise<FoundDisk> {
  const refuse = refuserOf(name, image)
  const path = await findDisk(image, directory, refuse)
  const within = relative(await realpath(directory), path)
  const disk = await examineDisk(path).catch((error: unknown) => refuse(unreadable(within, error), error))
  if ('refused' in disk) return refuse(`${shown(within)} ${disk.refused}`)
  return { path, ...disk, shownPath: shown(within) }
}

type Refuse = (message: string, cause?: unknown) => never

const refuserOf =
  (name: string, { reference }: ImageSource): Refuse =>
  (message, cause) => {
    const text = `volume "${name}": the image ${reference}: ${message}`
    throw new Refused('VolumeUnavailable', text, cause === undefined ? {} : { cause })
  }

/** The absolute path of the disk, without symbolic links. */
async function findDisk(image: ImageSource, directory: string, refuse: Refuse): Promise<string> {
  const root = await realpath(directory).catch((error: unknown) => refuse('is not in the pod', error))
  const within = image.path?.replace(/^\//, '') ?? join(diskFolder, await onlyName(root, refuse))
  const file = await resolveInside(root, within, refuse)
  const found = await stat(file)
  return found.isFile() ? file : refuse(`${shown(within)} is not a regular file`)
}

/**
 * The absolute path of a file or folder of the image, without symbolic links: a link in the image must not lead to the
 * VM's other volumes or to the launcher's own files. The image is read-only, so a link cannot change afterwards.
 */
async function resolveInside(root: string, within: string, refuse: Refuse): Promise<string> {
  const path = await realpath(join(root, within)).catch((error: unknown) => refuse(unreadable(within, error), error))
  const isInside = path.startsWith(`${root}/`) && isPathInImage(path.slice(root.length + 1))
  return isInside ? path : refuse(`${shown(within)} is a link that leads out of the image`)
}

/** The name of the only file in the folder for disks. */
async function onlyName(root: string, refuse: Refuse): Promise<string> {
  const names = await namesIn(await resolveInside(root, diskFolder, refuse), refuse)
  const [name, ...others] = names
  if (name === undefined) return refuse(`has no file in /${diskFolder}; ${howToMake}`)
  if (others.length === 0 && isPathInImage(name)) return name
  const listed = names.slice(0, mostNames).map(shown).join(', ')
  return refuse(`/${diskFolder} must have one file, and has ${listed}; set image.path`)
}

const howToMake = `the disk must be the only file in /${diskFolder}, or image.path must name it`

/** Reads no more names than a message shows: an image can have millions. */
async function namesIn(folder: string, refuse: Refuse): Promise<readonly string[]> {
  const names: string[] = []
  try {
    for await (const { name } of await opendir(folder)) {
      names.push(name)
      if (names.length > mostNames) break
    }
  } catch (error) {
    return refuse(unreadable(diskFolder, error), error)
  }
  return names.toSorted()
}

function sizeOf({ capacity }: ImageVolume, bytes: bigint, refuse: Refuse): bigint {
  const wanted = capacity === undefined ? undefined : quantityValue(capacity)
  if (wanted === undefined) {
    if (bytes <= largestUnset) return bytes
    return refuse(`is a disk of ${bytes} bytes; set image.capacity to at least that, since it is more than 16Gi`)
  }
  if (wanted >= bytes) return wanted
  return refuse(`is a disk of ${bytes} bytes, which is more than image.capacity, ${capacity}; a disk can only grow`)
}

/** `-u`: qemu-img does not open the backing file. Renamed when complete, so that an existing file is a whole one. */
async function createOverlay(path: string, backing: Backing, bytes: bigint): Promise<void> {
  if (await exists(path)) return
  const unfinished = `${path}.unfinished`
  await rm(unfinished, { force: true })
  const from = ['-u', '-b', backing.path, '-F', backing.format]
  const command = ['create', '-q', '-f', 'qcow2', ...from, unfinished, `${bytes}`]
  await promisify(execFile)('qemu-img', command)
  await rename(unfinished, path)
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** A path in a hostile image, for a terminal. */
const shown = (path: string): string => JSON.stringify(`/${path.slice(0, longestShown)}`)

const longestShown = 200

function unreadable(path: string, error: unknown): string {
  if (isMissing(error)) return `has no ${shown(path)}; ${howToMake}`
  if (codeOf(error) !== 'EACCES') return `${shown(path)}: ${wordsOf(error)}`
  return `${shown(path)} cannot be read by user 107; build the image with COPY --chown=107:107`
}

const isMissing = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(codeOf(error) ?? '')

const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined

const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

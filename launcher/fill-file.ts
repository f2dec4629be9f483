import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { type FileHandle, link, lstat, open, opendir, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type ConvertedDisk, convertDisk } from './convert-disk.ts'
import { createFile } from './create-file.ts'
import { kindOf } from './path-kind.ts'

export const diskName = 'disk.img'
const unfinished = /^disk\.img\.[\w-]+\.unfinished$/
const mebibyte = 1024n * 1024n

interface FileTarget {
  readonly directory: string
  /** The uid of the VM, which is in the name of the unfinished file. */
  readonly writer: string
  /** The size that the disk shall have, in bytes. */
  readonly bytes: bigint
}

interface FileSource extends ConvertedDisk {
  /** A directory of the launcher's own. */
  readonly scratch: string
  readonly onPercent: (percent: number) => void
}

/** Where a file in the claim is made under a name that `removeUnfinished` knows. */
export const unfinishedPath = (directory: string, writer: string): string =>
  join(directory, `${diskName}.${writer}.unfinished`)

/** The file that all who fill the claim have locked. It is there until the claim has a disk. */
export const fillingLockPath = (directory: string): string => unfinishedPath(directory, 'filling')

/** Whether a file in a claim is a disk that is being made, or was not made to the end. */
export const isUnfinished = (name: string): boolean => unfinished.test(name)

/** Removes the files that another attempt left, but not the lock; if that attempt is still running, it fails. */
export async function removeUnfinished(directory: string): Promise<void> {
  for await (const name of namesIn(directory)) {
    const path = join(directory, name)
    if (isUnfinished(name) && path !== fillingLockPath(directory)) await rm(path, { force: true })
  }
}

/** One by one: a guest can create more files in a claim than the launcher has memory for. */
export async function* namesIn(directory: string): AsyncGenerator<string> {
  for await (const { name } of await opendir(directory)) yield name
}

/**
 * Makes `disk.img` of a source, or empty without one. It is made under a name of this VM's own, synchronized, and then
 * linked to its name: whenever the launcher or the node is killed, `disk.img` is whole or absent. See
 * `removeUnfinished`.
 */
export async function fillFile(
  source: FileSource | undefined,
  { directory, writer, bytes }: FileTarget,
): Promise<void> {
  const isWhole = source?.temporary !== undefined && source.format === 'raw'
  const path = isWhole ? source.path : unfinishedPath(directory, writer)
  const file = isWhole ? source.temporary : await createFile(path)
  try {
    if (source !== undefined && !isWhole) await convertDisk(source, file, { offset: 0 }, source)
    const { size } = await file.stat({ bigint: true })
    if (bytes > size) await file.truncate(Number(bytes))
    await file.sync()
    await publish(file, path, join(directory, diskName))
  } finally {
    if (!isWhole) await file.close()
    await rm(path, { force: true })
  }
  await synchronize(directory)
}

/** If another VM was faster, it uses its `disk.img` already, which must not be replaced. */
async function publish(file: FileHandle, path: string, name: string): Promise<void> {
  try {
    await link(path, name)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'EEXIST') return
    // A file system without links, such as SMB.
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP' && code !== 'ENOSYS') throw error
    if ((await renameUnlessExists(path, name)) === 'exists') return
  }
  const [made, published] = await Promise.all([file.stat({ bigint: true }), lstat(name, { bigint: true })])
  if (made.ino === published.ino && made.dev === published.dev) return
  throw new Error(`${name} is not the file that was filled: something else writes to the claim`)
}

/**
 * Looking for the name first and then renaming would replace a file that is made in between. Node has no RENAME_NOREPLACE;
 * mv uses it. Its exit code for a name that exists depends on its version.
 */
async function renameUnlessExists(path: string, name: string): Promise<'renamed' | 'exists'> {
  const args = ['--no-clobber', '--no-target-directory', '--', path, name]
  const failure = await promisify(execFile)('mv', args).then(
    () => undefined,
    (error: unknown) => error,
  )
  if ((await kindOf(path)) === 'absent') return 'renamed'
  if ((await kindOf(name)) !== 'absent') return 'exists'
  throw new Error(`${path} could not be renamed to ${name}`, { cause: failure })
}

/** What has a name in the directory has it after a power failure. */
export async function synchronize(directory: string): Promise<void> {
  const handle = await open(directory)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/**
 * The size in bytes of the disk in a file system: the capacity, or what the file system has room for if that is less.
 * A file system of 1 GiB has no room for a file of 1 GiB.
 * @param source what a disk that does not exist is made from; it is at least as large
 */
export async function sizeInFileSystem(directory: string, capacity: bigint, source?: ConvertedDisk): Promise<bigint> {
  const { bavail, bsize } = await statfs(directory, { bigint: true })
  // What others have not finished may stay, and a disk does not shrink. If it is removed, the disk grows later.
  const own = (await storedBytes(join(directory, diskName))) ?? (await bytesOf(source?.temporary))
  const room = ((bavail * bsize + own) / mebibyte) * mebibyte
  const fitting = capacity < room ? capacity : room
  const smallest = source?.bytes ?? 0n
  return fitting > smallest ? fitting : smallest
}

/** What a file takes; undefined without one. */
const storedBytes = (path: string): Promise<bigint | undefined> =>
  lstat(path, { bigint: true }).then(
    ({ blocks }) => blocks * 512n,
    () => undefined,
  )

/** The same of a file that becomes the disk, or is removed. */
export const bytesOf = async (file: FileHandle | undefined): Promise<bigint> =>
  file === undefined ? 0n : (await file.stat({ bigint: true })).blocks * 512n

/**
 * Lets an existing `disk.img` grow to `bytes`; it never shrinks, even if another VM makes it grow meanwhile: to truncate
 * it to a larger size would then cut off what that guest has written. A disk for which the claim has no block left (a
 * quota does not show in its free space) stays as it is.
 */
export async function growFile(directory: string, bytes: bigint): Promise<void> {
  const file = await open(join(directory, diskName), constants.O_RDWR | constants.O_NOFOLLOW)
  try {
    const { size } = await file.stat({ bigint: true })
    if (bytes <= size) return
    await allocateByte(file, bytes - 1n)
    await file.sync()
  } finally {
    await file.close()
  }
}

/**
 * posix_fallocate(3), which Node does not have. It keeps what is in the file, and what is larger. Why it failed is in the
 * log of the pod.
 */
async function allocateByte(file: FileHandle, offset: bigint): Promise<void> {
  const args = ['--posix', '--offset', String(offset), '--length', '1', '/proc/self/fd/3']
  await once(spawn('fallocate', args, { stdio: ['ignore', 'ignore', 'inherit', file.fd] }), 'close')
}

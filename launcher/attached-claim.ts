import { constants } from 'node:fs'
import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { quantityValue } from '../api/quantity.ts'
import { fillFile, removeUnfinished, sizeInFileSystem } from './fill-file.ts'
import { kindOf } from './path-kind.ts'

interface ClaimOptions {
  readonly isReadOnly: boolean
  /** In bytes, as the claim requests it. */
  readonly capacity: bigint | undefined
}

const lockName = 'disk.img.lock'
/** What a claim without a disk can contain: what a new file system has, and the lock of an earlier attempt. */
const ofEmpty = ['lost+found', lockName]

/**
 * Ensures that a claim has the file disk.img, and if it is writable, the file that serve-volume locks. A claim that is
 * empty gets a disk; one with other files belongs to something else, and gets nothing.
 * @throws an error with a message for the user
 */
export async function prepareAttachedClaim(directory: string, { isReadOnly, capacity }: ClaimOptions): Promise<void> {
  const kind = await kindOf(join(directory, 'disk.img'))
  if (kind === 'file') return prepareLock(directory, isReadOnly)
  if (kind !== 'absent') throw new Error('the claim has no file disk.img: what has this name is not a file')
  if (isReadOnly) throw new Error('the claim has no file disk.img, and is read-only')
  await removeUnfinished(directory)
  const others = (await readdir(directory)).filter((name) => !ofEmpty.includes(name))
  if (others.length > 0) throw new Error('the claim has no file disk.img, but other files')
  if (capacity === undefined || capacity <= 0n) throw new Error('the claim is empty, and its capacity is not known')
  await prepareLock(directory, isReadOnly)
  const bytes = await sizeInFileSystem(directory, capacity, 0n)
  await fillFile(undefined, { directory, writer: 'attached', bytes })
}

async function prepareLock(directory: string, isReadOnly: boolean): Promise<void> {
  const path = join(directory, lockName)
  const kind = await kindOf(path)
  if (kind === 'file') return
  if (kind !== 'absent') throw new Error(`the claim cannot be locked: ${lockName} is not a file`)
  if (isReadOnly) return
  const file = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW)
  await file.close()
}

export const claimedCapacity = (text: string | undefined): bigint | undefined =>
  text === undefined ? undefined : quantityValue(text)

import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { quantityValue } from '../api/quantity.ts'
import { stateOfDevice } from './fill-device.ts'
import { fillFile, isUnfinished, namesIn, sizeInFileSystem, unfinishedPath } from './fill-file.ts'
import { kindOf } from './path-kind.ts'

interface ClaimOptions {
  readonly isReadOnly: boolean
  /** In bytes, as the claim requests it. */
  readonly capacity: bigint | undefined
}

const lockName = 'disk.img.lock'
const unfinishedClaim = 'a VM is filling the claim, or has not filled it to the end'
const writer = 'attached'
/** What a claim without a disk can contain: what a new file system has, and what an earlier attempt left. */
const ofEmpty = ['lost+found', lockName, basename(unfinishedPath('', writer))]

/**
 * Ensures that a claim has the file disk.img, and if it is writable, the file that serve-volume locks. A claim that is
 * empty gets a disk. One with other files belongs to something else, and one that is to be filled gets the disk of its
 * source: neither gets another.
 * @throws an error with a message for the user
 */
export async function prepareAttachedClaim(directory: string, { isReadOnly, capacity }: ClaimOptions): Promise<void> {
  const kind = await kindOf(join(directory, 'disk.img'))
  if (kind === 'file') return prepareLock(directory, isReadOnly)
  if (kind !== 'absent') throw new Error('the claim has no file disk.img: what has this name is not a file')
  const other = await otherNameIn(directory)
  if (other !== undefined && isUnfinished(other)) {
    throw new Error(`${unfinishedClaim}: it has ${other}, and no disk.img yet`)
  }
  if (isReadOnly) throw new Error('the claim has no file disk.img, and is read-only')
  if (other !== undefined) throw new Error('the claim has no file disk.img, but other files')
  if (capacity === undefined || capacity <= 0n) throw new Error('the claim is empty, and its capacity is not known')
  await prepareLock(directory, isReadOnly)
  const bytes = await sizeInFileSystem(directory, capacity)
  await fillFile(undefined, { directory, writer, bytes })
}

/** @throws an error with a message for the user if the device is being filled */
export async function checkAttachedDevice(path: string): Promise<void> {
  if ((await stateOfDevice(path)) === 'unfinished') throw new Error(unfinishedClaim)
}

/** One of the names that an empty claim does not have. */
async function otherNameIn(directory: string): Promise<string | undefined> {
  for await (const name of namesIn(directory)) if (!ofEmpty.includes(name)) return name
  return undefined
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

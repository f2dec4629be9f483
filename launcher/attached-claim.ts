import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { quantityValue } from '../api/quantity.ts'
import { fillFile, removeUnfinished, sizeInFileSystem } from './fill-file.ts'
import { kindOf } from './path-kind.ts'

interface ClaimOptions {
  readonly isReadOnly: boolean
  /** In bytes, as the claim requests it. */
  readonly capacity: bigint | undefined
}

/** What a new file system can contain. */
const ofFileSystem = ['lost+found']

/**
 * Ensures that a claim has the file disk.img. A claim that is empty gets one; one with other files belongs to something
 * else, and gets none.
 * @throws an error with a message for the user
 */
export async function prepareAttachedClaim(directory: string, { isReadOnly, capacity }: ClaimOptions): Promise<void> {
  const kind = await kindOf(join(directory, 'disk.img'))
  if (kind === 'file') return
  if (kind !== 'absent') throw new Error('the claim has no file disk.img: what has this name is not a file')
  if (isReadOnly) throw new Error('the claim has no file disk.img, and is read-only')
  await removeUnfinished(directory)
  const others = (await readdir(directory)).filter((name) => !ofFileSystem.includes(name))
  if (others.length > 0) throw new Error('the claim has no file disk.img, but other files')
  if (capacity === undefined || capacity <= 0n) throw new Error('the claim is empty, and its capacity is not known')
  const bytes = await sizeInFileSystem(directory, capacity, 0n)
  await fillFile(undefined, { directory, writer: 'attached', bytes, onPercent: () => {} })
}

export const claimedCapacity = (text: string | undefined): bigint | undefined =>
  text === undefined ? undefined : quantityValue(text)

import { statfs } from 'node:fs/promises'

/** What is written to has no room. Another attempt can succeed. */
class NoSpace extends Error {
  override name = 'NoSpace'
}

interface Place {
  /** What is full, for the message. */
  readonly name: string
  /** A directory of its file system. A device does not tell how much can be written to it. */
  readonly directory?: string
  /** The most that is written, in bytes, if that is known by then. */
  readonly bytes: () => bigint | undefined
}

/** The line on which qemu-img or genisoimage reports why it failed. Neither has an exit code for it. */
const failureOfProgram =
  /^(?:qemu-img: .*: (?:No space left on device|Disk quota exceeded)$|genisoimage: (?:No space left on device|Disk quota exceeded)\. )/m

/**
 * Whether an error, or its cause, is that a file system or a device is full, or a quota exhausted. Messages do not
 * decide: they contain what others have chosen, such as paths in images.
 */
export function isFull(error: unknown): error is Error {
  if (!(error instanceof Error)) return false
  if (error instanceof NoSpace || ('code' in error && ['ENOSPC', 'EDQUOT'].includes(String(error.code)))) return true
  // As of `execFile`.
  if ('stderr' in error && failureOfProgram.test(String(error.stderr))) return true
  return isFull(error.cause)
}

/**
 * Does what writes to a place.
 * @throws NoSpace if the place is full, with how much is missing
 */
export async function writingTo<T>(place: Place, write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (error instanceof NoSpace || !isFull(error)) throw error
    throw new NoSpace(`${place.name} is full${await missingIn(place)}`, { cause: error })
  }
}

/** The most that is written there at a time: the first 2 MiB of a qcow2 file, twice. */
const scratchBytes = 5n * 1024n * 1024n

/** Does what writes to the directory for small temporary files. */
export const writingToScratch = <T>(directory: string, write: () => Promise<T>): Promise<T> =>
  writingTo({ name: '/tmp of the launcher pod', directory, bytes: () => scratchBytes }, write)

/** Less can be missing: holes of the disk need no space. */
async function missingIn({ directory, ...place }: Place): Promise<string> {
  const bytes = place.bytes()
  if (bytes === undefined) return ''
  if (directory === undefined) return `: up to ${bytes} bytes are needed`
  const { bavail, bsize } = await statfs(directory, { bigint: true })
  const free = bavail * bsize
  // A quota, or space that was freed meanwhile.
  if (free >= bytes) return `: up to ${bytes} bytes are needed`
  return `: up to ${bytes - free} bytes are missing (${bytes} are needed, ${free} are free)`
}

import { statfs } from 'node:fs/promises'

/** What is written to has no room. Another attempt can succeed. */
class NoSpace extends Error {
  override name = 'NoSpace'
  readonly place: Place

  constructor(message: string, place: Place, options: ErrorOptions) {
    super(message, options)
    this.place = place
  }
}

interface Place {
  /** What is full, for the message. */
  readonly name: string
  /** A directory of its file system. A device does not tell how much can be written to it. */
  readonly directory?: string
  /** The most that is written, in bytes, if that is known by then. */
  readonly bytes: () => bigint | undefined
  /** What the same attempt has stored there before, in bytes. */
  readonly stored?: bigint
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
    throw new NoSpace(`${place.name} is full${await missingIn(place)}`, place, { cause: error })
  }
}

/** The most attempts in a row that are not made. They come every five minutes then: one in an hour is made. */
const mostSpared = 11

/** Makes an attempt that writes to a directory, or repeats the error of the last one. */
export type AttemptWithMoreRoom = <T>(directory: string, attempt: () => Promise<T>) => Promise<T>

/**
 * For attempts that are expensive, such as a download. One that found the directory full is not made again while no more
 * is free there than when it began, except if that is enough: then it was something else, such as a quota, or another
 * writer. An attempt is made now and then nevertheless, because what is free does not tell everything.
 */
export function createAttemptWithMoreRoom(): AttemptWithMoreRoom {
  let last: { readonly error: NoSpace; readonly room: Room } | undefined
  let spared = 0
  return async (directory, attempt) => {
    const room = await roomIn(directory)
    if (last !== undefined && spared < mostSpared && isInVain(room, last.room, last.error.place)) {
      spared++
      throw last.error
    }
    last = undefined
    spared = 0
    try {
      return await attempt()
    } catch (error) {
      if (error instanceof NoSpace && error.place.directory === directory) last = { error, room }
      throw error
    }
  }
}

interface Room {
  readonly bytes: bigint
  /** How many files can be created. */
  readonly files: bigint
}

function isInVain(now: Room, before: Room, { bytes, stored = 0n }: Place): boolean {
  if (now.bytes > before.bytes || now.files > before.files) return false
  const needed = bytes()
  return needed === undefined || now.bytes < needed + stored
}

async function roomIn(directory: string): Promise<Room> {
  const { bavail, bsize, ffree } = await statfs(directory, { bigint: true })
  return { bytes: bavail * bsize, files: ffree }
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
  const { bytes: free } = await roomIn(directory)
  // A quota, or space that was freed meanwhile.
  if (free >= bytes) return `: up to ${bytes} bytes are needed`
  return `: up to ${bytes - free} bytes are missing (${bytes} are needed, ${free} are free)`
}

import { type FileHandle, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type HttpSource, shownUrl } from '../api/http-source.ts'
import type { ConvertedDisk } from './convert-disk.ts'
import { createFile } from './create-file.ts'
import { diskOf, examineFile, type Disk } from './disk-format.ts'
import { download } from './download.ts'
import { writingTo } from './no-space.ts'
import type { Clock } from '../runtime/clock.ts'

interface HttpDiskOptions {
  /** Where the file is stored: in the claim, or beside a block volume, which has no room for it. */
  readonly path: string
  /** What is full if the file has no room, for messages. */
  readonly place: string
  readonly clock: Clock
  /** The largest size of the disk, in bytes. */
  readonly maxBytes?: bigint
  /** The largest size of the file, in bytes. */
  readonly maxFileBytes?: bigint
  readonly onPercent: (percent: number) => void
  readonly onRetry: (message: string) => void
}

/**
 * Downloads a disk and examines it: the server can be hostile, and the checksum, too. Nothing opens it as a disk
 * before.
 * @throws Error with a message for the user
 */
export async function downloadDisk(source: HttpSource, options: HttpDiskOptions): Promise<ConvertedDisk> {
  const { path, place, maxBytes, maxFileBytes, ...rest } = options
  const shown = shownUrl(source.url)
  const accept = (disk: Disk | { readonly refused: string }): Disk => {
    if ('refused' in disk) throw new Error(`${shown} ${disk.refused}`)
    if (maxBytes === undefined || disk.bytes <= maxBytes) return disk
    throw new Error(`${shown} is a disk of ${disk.bytes} bytes, and the claim's disk has ${maxBytes}`)
  }
  let fileBytes: bigint | undefined
  const fetchTo = async (temporary: FileHandle): Promise<ConvertedDisk> => {
    await download(source, temporary, {
      ...rest,
      ...(maxFileBytes === undefined ? {} : { maxBytes: maxFileBytes }),
      checkHead(sector, bytes) {
        fileBytes = bytes
        accept(diskOf(sector, bytes ?? BigInt(sector.length)))
      },
    })
    return { path, ...accept(await examineFile(temporary)), isDevice: false, temporary }
  }
  const target = { name: place, directory: dirname(path), bytes: () => fileBytes }
  return writingTo(target, async () => {
    const temporary = await createFile(path)
    try {
      return await fetchTo(temporary)
    } catch (error) {
      await temporary.close()
      await rm(path, { force: true })
      throw error
    }
  })
}

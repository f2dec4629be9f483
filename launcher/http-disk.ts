import { rm } from 'node:fs/promises'
import { type HttpSource, shownUrl } from '../api/http-source.ts'
import type { ConvertedDisk } from './convert-disk.ts'
import { createFile } from './create-file.ts'
import { diskOf, examineFile, type Disk } from './disk-format.ts'
import { download } from './download.ts'
import type { Clock } from '../runtime/clock.ts'

interface HttpDiskOptions {
  /** Where the file is stored: in the claim, or beside a block volume, which has no room for it. */
  readonly path: string
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
  const { path, maxBytes, maxFileBytes, ...rest } = options
  const shown = shownUrl(source.url)
  const accept = (disk: Disk | { readonly refused: string }): Disk => {
    if ('refused' in disk) throw new Error(`${shown} ${disk.refused}`)
    if (maxBytes === undefined || disk.bytes <= maxBytes) return disk
    throw new Error(`${shown} is a disk of ${disk.bytes} bytes, and the claim's disk has ${maxBytes}`)
  }
  const temporary = await createFile(path)
  try {
    await download(source, temporary, {
      ...rest,
      ...(maxFileBytes === undefined ? {} : { maxBytes: maxFileBytes }),
      checkHead: (sector, bytes) => void accept(diskOf(sector, bytes ?? BigInt(sector.length))),
    })
    return { path, ...accept(await examineFile(temporary)), isDevice: false, temporary }
  } catch (error) {
    await temporary.close()
    await rm(path, { force: true })
    throw error
  }
}

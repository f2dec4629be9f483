import { execFile } from 'node:child_process'
import { type FileHandle, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createFile } from './create-file.ts'
import { type Disk, diskOf } from './disk-format.ts'

/** The header of qcow2 and all that it can name are in the first cluster, which has at most this. */
const headerBytes = 2 * 1024 * 1024
const sectorBytes = 512

/**
 * Fixes the header of a qcow2 file that others can write to at any time, such as the guest of another VM that shares
 * the claim. Between an examination of the file and its opening, they could name a data file in it, which qemu-img would
 * open: any file of this pod, or a server that it can reach.
 *
 * Makes an image of the beginning of the file, which is examined once more. Its other clusters are not allocated, so
 * QEMU reads them from what is stated as its backing: the file, as raw.
 * @param examined what the file was
 * @param scratch a directory of the launcher's own
 * @returns the path of the image; it belongs to the caller
 * @throws Error if the file is something else by now
 */
export async function fixHeader(file: FileHandle, examined: Disk, scratch: string): Promise<string> {
  const { size } = await file.stat()
  const beginning = Buffer.alloc(Math.min(size, headerBytes))
  const { bytesRead } = await file.read(beginning, 0, beginning.length, 0)
  const found = diskOf(beginning.subarray(0, Math.min(bytesRead, sectorBytes)), BigInt(size))
  const isSame = 'format' in found && found.format === examined.format && found.bytes === examined.bytes
  if (!isSame || bytesRead < beginning.length) throw new Error('the source was changed after it was examined')
  const raw = join(scratch, 'header')
  const image = join(scratch, 'header.qcow2')
  const own = await createFile(raw)
  try {
    await own.writeFile(beginning)
    // `-S 0`: zeros are allocated too. Otherwise, they would be read from the file.
    await qemuImg('convert', '-f', 'raw', '-O', 'qcow2', '-S', '0', raw, image)
  } finally {
    await own.close()
    await rm(raw, { force: true })
  }
  await qemuImg('resize', '-q', '-f', 'qcow2', image, String(Math.ceil(size / sectorBytes) * sectorBytes))
  return image
}

const qemuImg = async (...args: readonly string[]): Promise<unknown> => promisify(execFile)('qemu-img', args)

import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type ConvertedDisk, convertDisk } from './convert-disk.ts'
import { createFile } from './create-file.ts'

/** What decides whether a device is new. Partition tables and file systems write to it. */
const headBytes = 1024 * 1024
/** What is written last. */
const markedBytes = 4096
/** The smallest unit that a device writes as a whole or not at all. */
const sectorBytes = 512
const mark = Buffer.from('virtset: this disk is being filled\n')

/**
 * The state of a device, by its first MiB.
 *
 *     new          all zero
 *     unfinished   a sector of the first 4 KiB begins with the mark
 *     filled       anything else
 */
export async function stateOfDevice(path: string): Promise<'new' | 'unfinished' | 'filled'> {
  const device = await open(path, 'r')
  try {
    const head = Buffer.alloc(headBytes)
    await device.read(head, 0, headBytes, 0)
    if (sectorsOf(head.subarray(0, markedBytes)).some((sector) => sector.subarray(0, mark.length).equals(mark))) {
      return 'unfinished'
    }
    return isZero(head) ? 'new' : 'filled'
  } finally {
    await device.close()
  }
}

/**
 * Fills a device that is new or unfinished. First the mark is written to each of the first eight sectors, then the rest
 * of the disk, and last these sectors, whose write removes the mark: whenever the launcher or the node is killed, and
 * whichever of the sectors reached the device, it is still new, or unfinished, or filled.
 * @param scratch a directory for the first MiB of the disk
 */
export async function fillDevice(
  source: ConvertedDisk,
  path: string,
  { scratch, onPercent }: { readonly scratch: string; readonly onPercent: (percent: number) => void },
): Promise<void> {
  const head = await headOf(source, scratch)
  if (isZero(head)) throw new Error('the first MiB of the source is zero, as that of a claim that was not filled')
  await write(path, Buffer.concat(Array.from({ length: markedBytes / sectorBytes }, markedSector)), 0)
  if (source.bytes > headBytes) {
    await convertDisk(source, { device: path }, { offset: headBytes }, { scratch, onPercent })
  }
  await write(path, head.subarray(markedBytes), markedBytes)
  await write(path, head.subarray(0, markedBytes), 0)
}

/** The first MiB, or all of a smaller disk. */
async function headOf(source: ConvertedDisk, scratch: string): Promise<Buffer> {
  const path = join(scratch, 'first-mebibyte')
  const file = await createFile(path)
  try {
    await convertDisk(source, file, { offset: 0, size: sizeOfHead(source) }, { scratch, onPercent: () => {} })
    return await file.readFile()
  } finally {
    await file.close()
    await rm(path, { force: true })
  }
}

/** Part of a disk is a number of sectors. */
const sizeOfHead = ({ bytes }: ConvertedDisk): number =>
  bytes < headBytes ? Math.floor(Number(bytes) / sectorBytes) * sectorBytes : headBytes

function markedSector(): Buffer {
  const sector = Buffer.alloc(sectorBytes)
  mark.copy(sector)
  return sector
}

const sectorsOf = (bytes: Buffer): readonly Buffer[] =>
  Array.from({ length: bytes.length / sectorBytes }, (_, index) =>
    bytes.subarray(index * sectorBytes, (index + 1) * sectorBytes),
  )

const isZero = (bytes: Buffer): boolean => bytes.every((byte) => byte === 0)

/** What was written is on the device when this returns. */
async function write(path: string, bytes: Buffer, offset: number): Promise<void> {
  const device = await open(path, 'r+')
  try {
    await device.write(bytes, 0, bytes.length, offset)
    await device.sync()
  } finally {
    await device.close()
  }
}

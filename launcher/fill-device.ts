import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type ConvertedDisk, convertDisk } from './convert-disk.ts'
import { createFile } from './create-file.ts'
import { writingTo, writingToScratch } from './no-space.ts'

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
    return stateOf(head)
  } finally {
    await device.close()
  }
}

function stateOf(head: Buffer): 'new' | 'unfinished' | 'filled' {
  const sectors = sectorsOf(head.subarray(0, markedBytes))
  if (sectors.some((sector) => sector.subarray(0, mark.length).equals(mark))) return 'unfinished'
  return isZero(head) ? 'new' : 'filled'
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
  const head = await writingToScratch(scratch, () => headOf(source, scratch))
  const state = stateOf(head)
  if (state === 'new') throw new Error('the first MiB of the source is zero, as that of a claim that was not filled')
  if (state === 'unfinished') throw new Error('the source begins like a claim that is being filled')
  const storage = { name: 'the storage of its block device', bytes: () => source.bytes }
  // Open from the first write on, so that its `sync` reports a failure of any of them.
  const device = await open(path, 'r+')
  try {
    const write = async (beginning: Buffer, offset: number) => {
      await writingTo(storage, () => writePart(beginning, offset, { path, scratch }))
      await device.sync()
    }
    await write(Buffer.concat(Array.from({ length: markedBytes / sectorBytes }, markedSector)), 0)
    if (source.bytes > headBytes) {
      await writingTo(storage, () =>
        convertDisk(source, { device: path }, { offset: headBytes }, { scratch, onPercent }),
      )
    }
    if (head.length > markedBytes) await write(head, markedBytes)
    await write(head.subarray(0, markedBytes), 0)
  } finally {
    await device.close()
  }
}

const scratchName = 'part-of-disk'

/** The first MiB, or all of a smaller disk, in whole sectors, but at least what is marked. */
async function headOf(source: ConvertedDisk, scratch: string): Promise<Buffer> {
  const path = join(scratch, scratchName)
  const part = source.bytes < headBytes ? { offset: 0 } : { offset: 0, size: headBytes }
  const file = await createFile(path)
  try {
    await convertDisk(source, file, part, { scratch, onPercent: () => {} })
    const head = await file.readFile()
    const bytes = Math.max(markedBytes, Math.ceil(head.length / sectorBytes) * sectorBytes)
    return Buffer.concat([head, Buffer.alloc(bytes - head.length)])
  } finally {
    await file.close()
    await rm(path, { force: true })
  }
}

/**
 * Writes the beginning of the disk from `offset` on, as `convertDisk` does: past the page cache, which does not tell a
 * full device from a broken one.
 */
async function writePart(
  beginning: Buffer,
  offset: number,
  { path, scratch }: { readonly path: string; readonly scratch: string },
): Promise<void> {
  const part = join(scratch, scratchName)
  const file = await createFile(part)
  try {
    await writingToScratch(scratch, () => file.writeFile(beginning))
    const disk = { path: part, format: 'raw', isDevice: false, bytes: BigInt(beginning.length) } as const
    const size = beginning.length - offset
    await convertDisk(disk, { device: path }, { offset, size }, { scratch, onPercent: () => {} })
  } finally {
    await file.close()
    await rm(part, { force: true })
  }
}

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

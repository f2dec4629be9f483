import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

/** A disk that QEMU can open as a backing image without reaching another file. */
export interface Disk {
  readonly format: 'raw' | 'qcow2'
  /** The size of the disk that the guest sees, in bytes. */
  readonly bytes: bigint
}

/** Every field of qcow2's header and the magic number of every other format are in the first sector. */
const sectorBytes = 512

/**
 * Examines the first sector of a file that may be hostile: no other file is opened, and no length in it is used.
 * @returns what the disk is, or the reason why it cannot be used, as a predicate: "has a backing file"
 */
export async function examineDisk(path: string): Promise<Disk | { readonly refused: string }> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    return await examineFile(file)
  } finally {
    await file.close()
  }
}

/** The same of an open file. */
export async function examineFile(file: FileHandle): Promise<Disk | { readonly refused: string }> {
  const found = await file.stat({ bigint: true })
  if (!found.isFile()) return { refused: 'is not a regular file' }
  const sector = Buffer.alloc(sectorBytes)
  const { bytesRead } = await file.read(sector, 0, sectorBytes, 0)
  return diskOf(sector.subarray(0, bytesRead), found.size)
}

/** By the first bytes of a file, at their offset. qcow2 and raw are the formats that are supported. */
const formats: readonly (readonly [name: string, offset: number, magic: string])[] = [
  ['qcow2', 0, 'QFI\u00fb'],
  ['vmdk', 0, 'KDMV'],
  ['vmdk', 0, 'COWD'],
  ['vmdk', 0, '# Disk DescriptorFile'],
  ['vhdx', 0, 'vhdxfile'],
  ['vpc', 0, 'conectix'],
  ['vdi', 64, '\u007f\u0010\u00da\u00be'],
  ['qed', 0, 'QED\0'],
  ['parallels', 0, 'WithoutFreeSpace'],
  ['parallels', 0, 'WithouFreSpacExt'],
  ['gzip', 0, '\u001f\u008b'],
  ['xz', 0, '\u00fd7zXZ\0'],
  ['zstd', 0, '\u0028\u00b5\u002f\u00fd'],
]

/**
 * What the disk is whose file begins with `sector`.
 * @param fileBytes the size of the file
 */
export function diskOf(sector: Buffer, fileBytes: bigint): Disk | { readonly refused: string } {
  if (fileBytes === 0n) return { refused: 'is empty' }
  const found = formats.find(([, offset, magic]) => sector.toString('latin1').startsWith(magic, offset))
  if (found === undefined) return { format: 'raw', bytes: fileBytes }
  const [name] = found
  if (name === 'qcow2') return qcow2Of(sector)
  const advice = 'only qcow2 and raw are supported: convert it with qemu-img convert -O qcow2'
  return { refused: `has the format ${name}; ${advice}` }
}

/** The header of version 3 up to its length; version 2 ends before the features. */
const headerBytes = { 2: 72, 3: 104 }

/** Incompatible features by bit (QEMU's docs/interop/qcow2.rst). */
const feature = { corrupt: 1n << 1n, dataFile: 1n << 2n }
/** Dirty, corrupt, external data file, compression type, extended L2 entries. */
const knownFeatures = 0b11111n

/** QEMU reads them all when it opens the disk: 65,536, which it accepts, take a minute of processor time. */
const mostSnapshots = 1024

/**
 * An autoclear feature, without which QEMU ignores the bitmaps in a file. It loads up to 65,535, of up to 512 MiB of
 * memory each. Neither a copy of a disk nor the changes to one in an image need them.
 */
const bitmapsFeature = 1n

/** Whatever else is wrong with the file, QEMU reports when it opens it. */
function qcow2Of(header: Buffer): Disk | { readonly refused: string } {
  const version = header.length < 8 ? 0 : header.readUInt32BE(4)
  if (version !== 2 && version !== 3) return { refused: `is qcow2 of version ${version}; 2 and 3 are supported` }
  if (header.length < headerBytes[version]) return { refused: 'is qcow2 with a header that is cut off' }
  const features = version === 2 ? 0n : header.readBigUInt64BE(72)
  const autoclear = version === 2 ? 0n : header.readBigUInt64BE(88)
  const bytes = header.readBigUInt64BE(24)
  const faults: readonly (readonly [boolean, string])[] = [
    [header.readBigUInt64BE(8) !== 0n, 'has a backing file: merge the two with qemu-img convert -O qcow2'],
    [(features & feature.dataFile) !== 0n, 'has an external data file: merge the two with qemu-img convert -O qcow2'],
    [header.readUInt32BE(32) !== 0, 'is encrypted: decrypt it with qemu-img convert'],
    [(features & feature.corrupt) !== 0n, 'is marked as corrupt: repair it with qemu-img check -r all'],
    [(features & ~knownFeatures) !== 0n, 'uses features of qcow2 that are not supported'],
    [bytes === 0n, 'has no size'],
    [header.readUInt32BE(60) > mostSnapshots, 'has too many snapshots: remove them with qemu-img convert -O qcow2'],
    [(autoclear & bitmapsFeature) !== 0n, 'has dirty bitmaps: remove them with qemu-img convert -O qcow2'],
  ]
  const fault = faults.find(([isFaulty]) => isFaulty)
  return fault === undefined ? { format: 'qcow2', bytes } : { refused: fault[1] }
}

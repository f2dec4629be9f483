/** The header of a qcow2 image: QEMU's docs/interop/qcow2.rst. */
interface Qcow2 {
  readonly version?: number
  readonly bytes?: bigint
  readonly backingOffset?: bigint
  readonly encryption?: number
  readonly snapshots?: number
  /** Incompatible features by bit. */
  readonly features?: bigint
  /** The same of those that QEMU clears unless it knows them. */
  readonly autoclear?: bigint
}

/** The first sector of a qcow2 image. QEMU reads nothing else before it refuses the image. */
export function qcow2Header(fields: Qcow2 = {}): Buffer {
  const {
    version = 3,
    bytes = 1024n * 1024n,
    backingOffset = 0n,
    encryption = 0,
    snapshots = 0,
    features = 0n,
    autoclear = 0n,
  } = fields
  const header = Buffer.alloc(512)
  header.write('QFI\u00fb', 'latin1')
  header.writeUInt32BE(version, 4)
  header.writeBigUInt64BE(backingOffset, 8)
  header.writeUInt32BE(16, 20)
  header.writeBigUInt64BE(bytes, 24)
  header.writeUInt32BE(encryption, 32)
  header.writeUInt32BE(snapshots, 60)
  if (version === 2) return header
  header.writeBigUInt64BE(features, 72)
  header.writeBigUInt64BE(autoclear, 88)
  header.writeUInt32BE(4, 96)
  header.writeUInt32BE(104, 100)
  return header
}

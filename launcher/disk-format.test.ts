import { mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { qcow2Header } from '../test/qcow2.ts'
import { diskOf, examineDisk } from './disk-format.ts'

const mebibyte = 1024n * 1024n
const sectorOf = (text: string, offset = 0): Buffer => {
  const sector = Buffer.alloc(512)
  sector.write(text, offset, 'latin1')
  return sector
}
const examined = (sector: Buffer) => diskOf(sector, mebibyte)

describe('a disk', () => {
  test.each<[string, Buffer, object]>([
    ['a boot sector', sectorOf('\u0055\u00aa', 510), { format: 'raw', bytes: mebibyte }],
    ['shorter than a sector', Buffer.from('text'), { format: 'raw', bytes: mebibyte }],
    ['qcow2', qcow2Header({ bytes: 5n * mebibyte }), { format: 'qcow2', bytes: 5n * mebibyte }],
    ['qcow2 of version 2', qcow2Header({ version: 2, bytes: 4096n }), { format: 'qcow2', bytes: 4096n }],
    ['compressed qcow2', qcow2Header({ features: 0b11001n, bytes: 512n }), { format: 'qcow2', bytes: 512n }],
    ['qcow2 of the largest size', qcow2Header({ bytes: 2n ** 64n - 1n }), { format: 'qcow2', bytes: 2n ** 64n - 1n }],
  ])('of %s is accepted', (_, sector, expected) => expect(examined(sector)).toEqual(expected))

  test.each<[string, Buffer, string]>([
    ['qcow2 with a backing file', qcow2Header({ backingOffset: 104n }), 'has a backing file'],
    ['qcow2 with an external data file', qcow2Header({ features: 0b100n }), 'has an external data file'],
    ['encrypted qcow2', qcow2Header({ encryption: 2 }), 'is encrypted'],
    ['corrupt qcow2', qcow2Header({ features: 0b10n }), 'is marked as corrupt'],
    ['qcow2 with an unknown feature', qcow2Header({ features: 1n << 63n }), 'uses features of qcow2'],
    ['qcow2 with many snapshots', qcow2Header({ snapshots: 1025 }), 'has too many snapshots'],
    ['qcow2 with bitmaps', qcow2Header({ autoclear: 1n }), 'has dirty bitmaps'],
    ['qcow2 without a size', qcow2Header({ bytes: 0n }), 'has no size'],
    ['qcow2 of version 1', qcow2Header({ version: 1 }), 'is qcow2 of version 1'],
    ['qcow2 of version 4', qcow2Header({ version: 4 }), 'is qcow2 of version 4'],
    ['qcow2 without a version', qcow2Header().subarray(0, 4), 'is qcow2 of version 0'],
    ['qcow2 that ends in its header', qcow2Header().subarray(0, 103), 'header that is cut off'],
    ['qcow2 of version 2 that ends in its header', qcow2Header({ version: 2 }).subarray(0, 71), 'cut off'],
    ['sparse vmdk', sectorOf('KDMV'), 'has the format vmdk'],
    ['split vmdk', sectorOf('COWD'), 'has the format vmdk'],
    ['a vmdk descriptor, which names files', sectorOf('# Disk DescriptorFile\n'), 'has the format vmdk'],
    ['vhdx', sectorOf('vhdxfile'), 'has the format vhdx'],
    ['vhd', sectorOf('conectix'), 'has the format vpc'],
    ['vdi', sectorOf('\u007f\u0010\u00da\u00be', 64), 'has the format vdi'],
    ['qed', sectorOf('QED\0'), 'has the format qed'],
    ['parallels', sectorOf('WithoutFreeSpace'), 'has the format parallels'],
    ['extended parallels', sectorOf('WithouFreSpacExt'), 'has the format parallels'],
    ['gzip', sectorOf('\u001f\u008b'), 'has the format gzip'],
    ['xz', sectorOf('\u00fd7zXZ\0'), 'has the format xz'],
    ['zstd', sectorOf('(\u00b5/\u00fd'), 'has the format zstd'],
  ])('of %s is refused', (_, sector, refused) => {
    expect(examined(sector)).toEqual({ refused: expect.stringContaining(refused) })
  })

  test('that is empty is refused', () => expect(diskOf(Buffer.alloc(0), 0n)).toEqual({ refused: 'is empty' }))
})

describe('a file', () => {
  let folder: string

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'disk-'))
  })
  afterEach(() => rm(folder, { recursive: true }))

  test('is examined by its first sector and its size', async () => {
    const path = join(folder, 'disk')
    await writeFile(path, 'text')
    await truncate(path, 2 ** 40)
    expect(await examineDisk(path)).toEqual({ format: 'raw', bytes: 2n ** 40n })
    await writeFile(path, qcow2Header({ encryption: 1 }))
    expect(await examineDisk(path)).toEqual({ refused: expect.stringContaining('encrypted') })
  })

  test('must be a regular file, and not a link to one', async () => {
    await writeFile(join(folder, 'disk'), 'text')
    await symlink('disk', join(folder, 'link'))
    expect(await examineDisk(folder)).toEqual({ refused: 'is not a regular file' })
    await expect(examineDisk(join(folder, 'link'))).rejects.toMatchObject({ code: 'ELOOP' })
  })
})

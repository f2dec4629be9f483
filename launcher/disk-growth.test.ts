import { beforeEach, describe, expect, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import { createLogger } from '../runtime/log.ts'
import { createDiskGrowth } from './disk-growth.ts'
import type { DiskSize } from './libvirt/domain.ts'

const dom = { name: 'testvm', uuid: new Uint8Array(16), id: 1 }
const log = createLogger({ process: 'launcher', level: 'silent' })
const block = { type: 'block', source: { dev: '/dev/volumes/root' }, target: { dev: 'vda' } }
const domain = (...disks: object[]): Domain => ({ devices: { disks } })

/** By target. */
let sizes: { [target: string]: DiskSize | Error }
let resized: [string, bigint][]
let reads: number
let hasResponse: Promise<void> | undefined

beforeEach(() => {
  sizes = { vda: { capacity: 100n, physical: 200n } }
  resized = []
  reads = 0
  hasResponse = undefined
})

const create = () =>
  createDiskGrowth({
    log,
    readSize: async (_, target) => {
      reads += 1
      await hasResponse
      const size = sizes[target]
      if (size === undefined || size instanceof Error) throw size ?? new Error(`no disk ${target}`)
      return size
    },
    resize: async (_, target, bytes) => void resized.push([target, bytes]),
  })

test.each<[string, object, boolean]>([
  ['a block device', block, true],
  ['a raw block device', { ...block, device: 'disk', driver: { type: 'raw' } }, true],
  ['a file', { ...block, type: 'file', source: { file: '/disk.img' } }, false],
  ['a CD-ROM', { ...block, device: 'cdrom' }, false],
  ['a read-only disk', { ...block, readonly: {} }, false],
  ['a qcow2 image on a device', { ...block, driver: { type: 'qcow2' } }, false],
  ['an encrypted device', { ...block, source: { dev: '/dev/a', encryption: { format: 'luks' } } }, false],
  ['a device with the older form of encryption', { ...block, encryption: { format: 'luks' } }, false],
  ['a part of a device', { ...block, source: { dev: '/dev/a', slices: { slice: { size: 100 } } } }, false],
])('%s: whether it grows is %s', async (_, disk, grows) => {
  await create()(dom, domain(disk))
  expect(resized).toEqual(grows ? [['vda', 200n]] : [])
})

describe('the size', () => {
  test('that has not changed is left alone', async () => {
    sizes = { vda: { capacity: 100n, physical: 100n } }
    await create()(dom, domain(block))
    expect([reads, resized]).toEqual([1, []])
  })

  test('of a device that has shrunk is left alone', async () => {
    sizes = { vda: { capacity: 100n, physical: 50n } }
    await create()(dom, domain(block))
    expect(resized).toEqual([])
  })

  test('of other disks is read after an error', async () => {
    sizes = { vda: new Error('libvirt does not respond'), vdb: { capacity: 1n, physical: 2n } }
    await create()(dom, domain(block, { ...block, target: { dev: 'vdb' } }))
    expect(resized).toEqual([['vdb', 2n]])
  })

  test('is not read a second time while QEMU hangs', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    hasResponse = promise
    const grow = create()
    const first = grow(dom, domain(block))
    await grow(dom, domain(block))
    expect(reads).toBe(1)
    resolve()
    await first
    await grow(dom, domain(block))
    expect(reads).toBe(2)
  })
})

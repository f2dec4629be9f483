import { beforeEach, describe, expect, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { createLogger } from '../runtime/log.ts'
import { createDiskGrowth } from './disk-growth.ts'
import type { DiskSize } from './libvirt/domain.ts'

const dom = { name: 'testvm', uuid: new Uint8Array(16), id: 1 }
const log = createLogger({ process: 'launcher', level: 'silent' })
const block = { type: 'block', source: { dev: '/dev/volumes/root' }, target: { dev: 'vda' } }
const domain = (...disks: object[]): Domain => ({ devices: { disks } })
const file = { ...block, type: 'file', source: { file: '/volumes/files/data/disk.img' } }
/** The VM of a domain whose disk `vda` uses this claim. */
const specWith = (claim: object = {}): VirtualMachineSpec => ({
  domain: domain({ type: 'volume', source: { volume: 'data' }, target: { dev: 'vda' } }),
  volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data', ...claim } }],
})

/** By target. */
let sizes: { [target: string]: DiskSize | Error }
let resized: [string, bigint][]
let reads: number
/** By directory: the bytes that a file can have. */
let rooms: { [directory: string]: bigint }
let hasResponse: Promise<void> | undefined

beforeEach(() => {
  sizes = { vda: { capacity: 100n, physical: 200n } }
  rooms = { '/volumes/files/data': 300n }
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
    readRoom: async (directory, capacity) => {
      const room = rooms[directory] ?? 0n
      return capacity < room ? capacity : room
    },
    resize: async (_, target, bytes) => void resized.push([target, bytes]),
  })

test.each<[string, object, boolean]>([
  ['a block device', block, true],
  ['a block device that other guests use', { ...block, shareable: {} }, true],
  ['a raw block device', { ...block, device: 'disk', driver: { type: 'raw' } }, true],
  ['a file of a claim without a capacity', file, false],
  ['an attached volume', { type: 'network', source: { protocol: 'nbd' }, target: { dev: 'vda' } }, false],
  ['a CD-ROM', { ...block, device: 'cdrom' }, false],
  ['a read-only disk', { ...block, readonly: {} }, false],
  ['a qcow2 image on a device', { ...block, driver: { type: 'qcow2' } }, false],
  ['an encrypted device', { ...block, source: { dev: '/dev/a', encryption: { format: 'luks' } } }, false],
  ['a device with the older form of encryption', { ...block, encryption: { format: 'luks' } }, false],
  ['a part of a device', { ...block, source: { dev: '/dev/a', slices: { slice: { size: 100 } } } }, false],
])('%s: whether it grows is %s', async (_, disk, grows) => {
  await create()(dom, domain(disk), specWith())
  expect(resized).toEqual(grows ? [['vda', 200n]] : [])
})

test.each<[string, string, object, bigint | undefined]>([
  ['to its capacity if the file system has room', '200', {}, 200n],
  ['to the room of its file system if that is less', '1Gi', {}, 300n],
  ['not if it has this size', '100', {}, undefined],
  ['not if it is qcow2', '200', { driver: { type: 'qcow2' } }, undefined],
  ['not if it is read-only', '200', { readonly: {} }, undefined],
  ['not if other guests use it', '200', { shareable: {} }, undefined],
])('a file of a claim grows: %s', async (_, capacity, more, bytes) => {
  sizes = { vda: { capacity: 100n, physical: 100n } }
  await create()(dom, domain({ ...file, ...more }), specWith({ capacity }))
  expect(resized).toEqual(bytes === undefined ? [] : [['vda', bytes]])
})

test('a file that is larger than QEMU knows is not made smaller', async () => {
  sizes = { vda: { capacity: 100n, physical: 250n } }
  await create()(dom, domain(file), specWith({ capacity: '200' }))
  expect(resized).toEqual([])
})

describe('the size', () => {
  test('that has not changed is left alone', async () => {
    sizes = { vda: { capacity: 100n, physical: 100n } }
    await create()(dom, domain(block), specWith())
    expect([reads, resized]).toEqual([1, []])
  })

  test('of a device that has shrunk is left alone', async () => {
    sizes = { vda: { capacity: 100n, physical: 50n } }
    await create()(dom, domain(block), specWith())
    expect(resized).toEqual([])
  })

  test('of other disks is read after an error', async () => {
    sizes = { vda: new Error('libvirt does not respond'), vdb: { capacity: 1n, physical: 2n } }
    await create()(dom, domain(block, { ...block, target: { dev: 'vdb' } }), specWith())
    expect(resized).toEqual([['vdb', 2n]])
  })

  test('is not read a second time while QEMU hangs', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    hasResponse = promise
    const grow = create()
    const first = grow(dom, domain(block), specWith())
    await grow(dom, domain(block), specWith())
    expect(reads).toBe(1)
    resolve()
    await first
    await grow(dom, domain(block), specWith())
    expect(reads).toBe(2)
  })
})

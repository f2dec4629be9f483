import { mkdir, mkdtemp, readFile, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../runtime/clock.ts'
import type { Volume } from '../api/volume.ts'
import { volumeOfEachKind } from '../test/volumes.ts'
import { HeldDevices } from './held-device.ts'
import { prepareVolume } from './volume.ts'

let pod: string

beforeEach(async () => {
  pod = await mkdtemp(join(tmpdir(), 'volumes-'))
})

afterEach(() => rm(pod, { recursive: true }))

const prepare = (volume: Volume) =>
  prepareVolume(volume, {
    clock: systemClock,
    directories: {
      files: join(pod, 'volumes'),
      blocks: join(pod, 'block'),
      images: join(pod, 'images'),
      sources: join(pod, 'sources'),
      scratch: join(pod, 'tmp'),
    },
    vm: { uid: 'u-1', name: 'testvm' },
    use: { isWriter: true, isShared: false },
    devices: new HeldDevices(systemClock),
    onProgress: () => {},
  })

const mount = (name: string) => mkdir(join(pod, 'volumes', name), { recursive: true })

describe('an emptyDisk', () => {
  test('becomes a sparse file of its capacity', async () => {
    await mount('scratch')
    const path = join(pod, 'volumes/scratch/disk.img')
    expect(await prepare({ name: 'scratch', emptyDisk: { capacity: '1Gi' } })).toEqual({
      kind: 'file',
      path,
      isReadOnly: false,
      isTemporary: true,
    })
    const { size, blocks } = await stat(path)
    expect([size, blocks]).toEqual([1024 ** 3, 0])
  })

  test('that exists stays unchanged', async () => {
    await mount('scratch')
    await writeFile(join(pod, 'volumes/scratch/disk.img'), 'data')
    await prepare({ name: 'scratch', emptyDisk: { capacity: '1Gi' } })
    expect((await stat(join(pod, 'volumes/scratch/disk.img'))).size).toBe(4)
  })

  test('that cannot become as large leaves no smaller one for the next attempt', async () => {
    await mount('scratch')
    const volume = { name: 'scratch', emptyDisk: { capacity: '7Ei' } }
    await expect(prepare(volume)).rejects.toThrow('volume "scratch": ')
    await expect(prepare(volume)).rejects.toThrow('volume "scratch": ')
  })
})

describe('a claim', () => {
  test('in file mode is its disk.img', async () => {
    await mount('root')
    await writeFile(join(pod, 'volumes/root/disk.img'), '')
    expect(await prepare({ name: 'root', persistentVolumeClaim: { claimName: 'c', readOnly: true } })).toEqual({
      kind: 'file',
      path: join(pod, 'volumes/root/disk.img'),
      isReadOnly: true,
    })
  })

  const empty = { name: 'root', persistentVolumeClaim: { claimName: 'c', source: { empty: {} }, capacity: '3Mi' } }
  const disk = () => join(pod, 'volumes/root/disk.img')

  test('that is to be empty gets a disk of its capacity, and nothing that an earlier attempt left', async () => {
    await mount('root')
    await writeFile(`${disk()}.u-0.unfinished`, 'half')
    expect(await prepare(empty)).toMatchObject({ kind: 'file', path: disk(), isReadOnly: false })
    expect((await stat(disk())).size).toBe(3 * 1024 ** 2)
    expect(await readdir(join(pod, 'volumes/root'))).toEqual(['disk.img'])
  })

  test('that another VM is filling is not disturbed by one without a source', async () => {
    await mount('root')
    await writeFile(`${disk()}.u-0.unfinished`, 'half')
    const volume = { name: 'root', persistentVolumeClaim: { claimName: 'c', capacity: '3Mi' } }
    await expect(prepare(volume)).rejects.toThrow('the claim c has no file disk.img')
    expect(await readdir(join(pod, 'volumes/root'))).toEqual(['disk.img.u-0.unfinished'])
  })

  test('that has a disk keeps it, and the disk grows', async () => {
    await mount('root')
    await writeFile(disk(), 'data')
    await prepare(empty)
    expect((await readFile(disk())).subarray(0, 6).toString()).toBe('data\0\0')
    expect((await stat(disk())).size).toBe(3 * 1024 ** 2)
  })
})

test('each kind of volume is supported', async () => {
  for (const volume of volumeOfEachKind) {
    const failure = await prepare(volume).then(() => '', String)
    expect(failure).not.toContain('does not support')
  }
})

describe('a missing volume is refused with a message for the user', () => {
  const claim = { name: 'root', persistentVolumeClaim: { claimName: 'c' } }

  test.each<[string, string[], Volume, string]>([
    ['a claim', [], claim, 'volume "root": the claim c is not in the pod'],
    ['the disk in a claim', ['root'], claim, 'volume "root": the claim c has no file disk.img'],
    ['the directory of an emptyDisk', [], { name: 'a', emptyDisk: { capacity: '1Gi' } }, 'volume "a": ENOENT'],
    ['the directory of a seed', [], { name: 'a', cloudInit: {} }, 'volume "a": '],
    ['a capacity', ['a'], { name: 'a', emptyDisk: { capacity: 'much' } }, 'volume "a": much is not a valid capacity'],
    ['a kind', [], { name: 'a' }, 'volume "a" is of a kind that this launcher does not support'],
  ])('%s', async (_, mounts, volume, message) => {
    for (const name of mounts) await mount(name)
    const refused = prepare(volume)
    await expect(refused).rejects.toMatchObject({ name: 'Refused', reason: 'VolumeUnavailable' })
    await expect(refused).rejects.toThrow(message)
  })

  test('a disk in an image whose name is the message of a full disk', async () => {
    await mkdir(join(pod, 'images/root'), { recursive: true })
    const image = { reference: 'disks/test:1', path: 'No space left on device' }
    await expect(prepare({ name: 'root', image })).rejects.toThrow('has no "/No space left on device"')
  })

  test('a disk in a claim that is a symbolic link to another file of the pod', async () => {
    await mount('root')
    await writeFile(join(pod, 'volumes/secret'), 'secret')
    await symlink('../secret', join(pod, 'volumes/root/disk.img'))
    await expect(prepare(claim)).rejects.toThrow('volume "root": the claim c has no file disk.img')
  })
})

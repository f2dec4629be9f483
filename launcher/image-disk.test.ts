import { chmod, mkdir, mkdtemp, readFile, realpath, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { ImageVolume } from '../api/volume.ts'
import { qcow2Header } from '../test/qcow2.ts'
import { prepareImageDisk } from './image-disk.ts'

let pod: string

beforeEach(async () => {
  pod = await realpath(await mkdtemp(join(tmpdir(), 'image-')))
  for (const folder of ['bin', 'changes', 'private', 'image/disk']) await mkdir(join(pod, folder), { recursive: true })
  // Writes its arguments to the file that it is to create.
  await writeFile(
    join(pod, 'bin/qemu-img'),
    '#!/bin/sh\nfor last; do before=$file file=$last; done\necho "$@" > "$before"\n',
  )
  await chmod(join(pod, 'bin/qemu-img'), 0o755)
  vi.stubEnv('PATH', `${pod}/bin:${process.env['PATH']}`)
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(pod, { recursive: true })
})

const inImage = (path: string) => join(pod, 'image', path)
const put = (path: string, content: Buffer | string = qcow2Header()) => writeFile(inImage(path), content)
const prepare = (image: Partial<ImageVolume> = {}) =>
  prepareImageDisk('root', { reference: 'debian:13', ...image }, { image: inImage(''), changes: join(pod, 'changes') })
const overlay = () => readFile(join(pod, 'changes/disk.qcow2'), 'utf8')

describe('the disk of an image', () => {
  test('is the only file in the folder disk, with a qcow2 file for what the guest writes', async () => {
    await put('disk/disk.qcow2')
    expect(await prepare()).toEqual({
      path: join(pod, 'changes/disk.qcow2'),
      backing: { path: inImage('disk/disk.qcow2'), format: 'qcow2' },
    })
    const from = `-u -b ${inImage('disk/disk.qcow2')} -F qcow2`
    expect(await overlay()).toBe(`create -q -f qcow2 ${from} ${join(pod, 'changes/disk.qcow2.unfinished')} 1048576\n`)
  })

  test.each(['images/a b.raw', '/images/a b.raw'])('is the file that path names: %s', async (path) => {
    await mkdir(inImage('images'))
    await put('images/a b.raw', 'text')
    expect(await prepare({ path })).toMatchObject({ backing: { path: inImage('images/a b.raw'), format: 'raw' } })
  })

  test('can be a link to another file of the image', async () => {
    await put('disk.raw', 'text')
    await symlink('../disk.raw', inImage('disk/disk.img'))
    expect(await prepare()).toMatchObject({ backing: { path: inImage('disk.raw') } })
  })

  test('grows to the capacity', async () => {
    await put('disk/disk.qcow2')
    await prepare({ capacity: '1Gi' })
    expect(await overlay()).toMatch(/ 1073741824\n$/)
  })

  test('has the same size as in the image if that is the capacity', async () => {
    await put('disk/disk.qcow2', qcow2Header({ bytes: 32n * 1024n ** 3n }))
    await prepare({ capacity: '32Gi' })
    expect(await overlay()).toMatch(/ 34359738368\n$/)
  })

  test('of 16 GiB needs no capacity', async () => {
    await put('disk/disk.qcow2', qcow2Header({ bytes: 16n * 1024n ** 3n }))
    await prepare()
    expect(await overlay()).toMatch(/ 17179869184\n$/)
  })

  test('retains what the guest wrote when the start is retried', async () => {
    await put('disk/disk.qcow2')
    await prepare()
    await writeFile(join(pod, 'changes/disk.qcow2'), 'written by the guest')
    await prepare()
    expect(await overlay()).toBe('written by the guest')
  })

  test('gets a new file for changes if the last one was not completed', async () => {
    await put('disk/disk.qcow2')
    await writeFile(join(pod, 'changes/disk.qcow2.unfinished'), 'half')
    await prepare()
    expect(await overlay()).toMatch(/^create /)
  })
})

describe('an image is refused with a message for the user', () => {
  const link = (target: string, path: string) => () => symlink(target, inImage(path))

  test.each<[string, () => Promise<unknown>, Partial<ImageVolume>, string]>([
    ['that is not in the pod', () => rm(inImage(''), { recursive: true }), {}, 'is not in the pod'],
    ['without the folder disk', () => rm(inImage('disk'), { recursive: true }), {}, 'has no "/disk"; the disk must be'],
    ['whose folder disk is a file', () => rm(inImage('disk'), { recursive: true }).then(() => put('disk')), {}, 'disk'],
    ['without a disk', async () => {}, {}, 'has no file in /disk; the disk must be the only file in /disk'],
    [
      'with two disks',
      () => put('disk/a').then(() => put('disk/b')),
      {},
      '/disk must have one file, and has "/a", "/b"; set image.path',
    ],
    ['without the file of path', async () => {}, { path: 'a/b' }, 'has no "/a/b"'],
    ['whose path is a folder', async () => {}, { path: 'disk' }, '"/disk" is not a regular file'],
    ['whose disk has a name with control characters', () => put('disk/a\u001b[2J'), {}, '"/a\\u001b[2J"'],
    ['whose disk is a link to another volume', link('../../private/x', 'disk/d'), {}, 'leads out of the image'],
    ['whose disk is an absolute link', link('/etc/hostname', 'disk/d'), {}, 'leads out of the image'],
    ['whose disk is a link to the root of the image', link('..', 'disk/d'), {}, 'leads out of the image'],
    ['whose disk is a device', link('/dev/zero', 'disk/d'), {}, 'leads out of the image'],
    ['whose disk is a link to itself', link('d', 'disk/d'), {}, 'ELOOP'],
    [
      'whose folder is a link',
      () => rm(inImage('disk'), { recursive: true }).then(link('../private', 'disk')),
      {},
      '"/disk" is a link that leads out of the image',
    ],
    ['whose path leads through a link', link('../private', 'l'), { path: 'l/x' }, 'leads out of the image'],
    ['with a hostile disk', () => put('disk/d', qcow2Header({ features: 4n })), {}, '"/disk/d" has an external data'],
    [
      'whose disk is larger than the capacity',
      () => put('disk/d'),
      { capacity: '1048575' },
      '"/disk/d" is a disk of 1048576 bytes, which is more than image.capacity, 1048575; a disk can only grow',
    ],
    [
      'whose disk is too large without a capacity',
      () => put('disk/d', 'x').then(() => truncate(inImage('disk/d'), 16 * 2 ** 30 + 1)),
      {},
      '"/disk/d" is a disk of 17179869185 bytes; set image.capacity to at least that, since it is more than 16Gi',
    ],
  ])('%s', async (_, arrange, image, message) => {
    await writeFile(join(pod, 'private/x'), 'secret')
    await arrange()
    const refused = prepare(image)
    await expect(refused).rejects.toMatchObject({ name: 'Refused', reason: 'VolumeUnavailable' })
    await expect(refused).rejects.toThrow('volume "root": the image debian:13: ')
    await expect(refused).rejects.toThrow(message)
    await expect(overlay()).rejects.toThrow('ENOENT')
  })

  test('with many files, of which only a few are listed', async () => {
    for (let index = 0; index < 20; index++) await put(`disk/${index}`)
    const words = await prepare().then(
      () => '',
      (error: unknown) => String(error),
    )
    expect(words.match(/"\/\d+"/g)).toHaveLength(5)
  })

  test('when qemu-img cannot create the file for changes', async () => {
    await put('disk/d')
    await rm(join(pod, 'changes'), { recursive: true })
    await expect(prepare()).rejects.toMatchObject({ reason: 'VolumeUnavailable' })
    await mkdir(join(pod, 'changes'))
  })
})

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmod, chown, mkdir, open, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import type { ClaimSource } from '../../api/claim-volume.ts'
import type { DomainReport } from '../../runtime/launcher-api.ts'
import { type FileServer, sha256, startFileServer } from '../file-server.ts'
import { addBlockVolume, attachLoop, detachLoop, guestEchoes, inside, qemuImg } from './claim.ts'
import { guestDisk } from './guest.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { libvirtRootfs, makeOwned, makeRunDirectory, uid } from './rootfs.ts'
import { vmOnVolume, volumeDisk } from './vm.ts'

/** What has no space is a real file system, or a device on one, and what fills it is removed meanwhile. */
const mebibyte = 1024 * 1024
const sizeMiB = 4
/** Boots, and has no zeros, which would need no space. */
const bootSector = guestDisk('echo').subarray(0, 512)
const content = Buffer.concat([bootSector, randomBytes(sizeMiB * mebibyte - bootSector.length)])

let launcher: RunningLauncher
afterEach(() => launcher.stop())

/** Begins to start a VM with this volume. */
function begin(volume: object, driver = 'raw'): Promise<DomainReport> {
  const start = launcher.put(vmOnVolume(volume, volumeDisk('root', 'vda', driver)))
  // It is awaited later, unless the test fails before.
  start.catch(() => {})
  return start
}

/** In the image of the pod; qcow2 of random data is a little larger than raw. */
async function makeImage(format: 'raw' | 'qcow2'): Promise<string> {
  const folder = join(launcher.images, 'root/disk')
  await mkdir(folder, { recursive: true })
  const [raw, path] = [join(launcher.images, 'raw'), join(folder, 'disk')]
  await writeFile(raw, content)
  await qemuImg('convert', '-f', 'raw', '-O', format, inside(raw), inside(path))
  await chmod(path, 0o444)
  return path
}

/** Where what is downloaded for a block volume is stored. */
const makeOwnedSources = async () => makeOwned(join(await launcher.inPod('sources'), 'root'))

async function serve(format: 'raw' | 'qcow2'): Promise<{ readonly source: ClaimSource; readonly server: FileServer }> {
  const file = await readFile(await makeImage(format))
  await rm(join(launcher.images, 'root'), { recursive: true })
  const server = await startFileServer()
  onTestFinished(() => server.close())
  server.answers({ status: 200, body: file })
  await makeOwnedSources()
  return { source: { http: { url: `${server.url}/disk`, checksum: sha256(file) } }, server }
}

const served = async (format: 'raw' | 'qcow2'): Promise<ClaimSource> => (await serve(format)).source

const sources = {
  'image, raw': () => makeImage('raw').then(() => ({ image: { reference: 'disks/test:1' } })),
  'image, qcow2': () => makeImage('qcow2').then(() => ({ image: { reference: 'disks/test:1' } })),
  claim: async () => {
    const path = join(await makeOwnedSources(), 'disk.img')
    await writeFile(path, content)
    await chmod(path, 0o444)
    return { claim: { claimName: 'other' } }
  },
  'http, raw': () => served('raw'),
  'http, qcow2': () => served('qcow2'),
} satisfies { readonly [name: string]: () => Promise<ClaimSource> }

/** Leaves so much of a file system. Returns what makes room. */
async function fill(directory: string, sizeBytes: number, leftBytes: number): Promise<() => Promise<void>> {
  const path = join(directory, 'filler')
  await writeFile(path, Buffer.alloc(sizeBytes - leftBytes))
  return () => rm(path)
}

/** The guest starts when there is room, and its whole disk is the source. */
async function bootsWithRoom(path: () => Promise<string>, start: Promise<DomainReport>, makeRoom: () => Promise<void>) {
  // A second attempt failed as well.
  await launcher.reported('it is tried again', ({ message = '' }) => message.endsWith('; trying again in 2 s'))
  expect(await launcher.pids('qemu-system-x86')).toEqual([])
  await makeRoom()
  expect(await start).toMatchObject({ phase: 'Running' })
  await guestEchoes(launcher)
  await using disk = await open(await path())
  const { buffer } = await disk.read(Buffer.alloc(content.length), 0, content.length, 0)
  expect(buffer.equals(content)).toBe(true)
}

const noSpace = () => launcher.reported('there is no space', ({ reason }) => reason === 'noSpace')
const cannotBeFilled = 'volume "root": the claim data cannot be filled: '
const isMissing =
  /: up to (?<missing>\d+) bytes are missing \((?<needed>\d+) are needed, (?<free>\d+) are free\); trying again in \d s$/

/** The numbers at the end of the message. */
function missingIn(message: string): { readonly needed: number; readonly free: number } {
  const { missing, needed, free } = isMissing.exec(message)?.groups ?? {}
  expect(Number(missing)).toBe(Number(needed) - Number(free))
  return { needed: Number(needed), free: Number(free) }
}

test.each<[keyof typeof sources, number]>([
  ['image, raw', 2],
  ['image, qcow2', 2],
  ['claim', 2],
  ['http, raw', 2],
  // The download has room, and the copy beside it has not.
  ['http, qcow2', 6],
])('a claim with a full file system is filled when it has room: %s', async (kind, leftMiB) => {
  launcher = await startLauncher({ volumesBytes: 16 * mebibyte })
  const source = await sources[kind]()
  const volumes = await launcher.inPod('volumes')
  const directory = await makeOwned(join(volumes, 'root'))
  const makeRoom = await fill(volumes, 16 * mebibyte, leftMiB * mebibyte)
  const start = begin({ persistentVolumeClaim: { claimName: 'data', source } })
  const { phase, message = '' } = await noSpace()
  expect(phase).toBe('Defined')
  expect(message).toContain(`${cannotBeFilled}its file system is full: `)
  const { needed, free } = missingIn(message)
  expect(needed).toBe(content.length)
  // Without the blocks of directories.
  expect(free).toBeLessThanOrEqual(2 * mebibyte)
  expect(free).toBeGreaterThan(mebibyte)
  expect(await readdir(directory)).not.toContain('disk.img')
  await bootsWithRoom(async () => join(directory, 'disk.img'), start, makeRoom)
  expect(await readdir(directory)).toEqual(['disk.img'])
})

const triedThreeTimes = ({ message = '' }: DomainReport) => message.endsWith('; trying again in 4 s')

test.each([
  ['raw', 2],
  ['qcow2', 6],
] as const)('a claim is downloaded to again only when more is free: %s', async (format, leftMiB) => {
  launcher = await startLauncher({ volumesBytes: 16 * mebibyte })
  const { source, server } = await serve(format)
  const volumes = await launcher.inPod('volumes')
  await makeOwned(join(volumes, 'root'))
  const makeRoom = await fill(volumes, 16 * mebibyte, leftMiB * mebibyte)
  const start = begin({ persistentVolumeClaim: { claimName: 'data', source } })
  await launcher.reported('it was tried three times', triedThreeTimes)
  expect(server.requests()).toHaveLength(1)
  await makeRoom()
  expect(await start).toMatchObject({ phase: 'Running' })
  expect(server.requests()).toHaveLength(2)
})

test('the node of a block volume is downloaded to again only when more is free', async () => {
  launcher = await startLauncher({ sourcesBytes: 8 * mebibyte })
  const { source, server } = await serve('raw')
  const folder = await makeRunDirectory(libvirtRootfs())
  onTestFinished(() => rm(folder.outside, { recursive: true }))
  await makeDevice(folder.outside)
  const makeRoom = await fill(await launcher.inPod('sources'), 8 * mebibyte, 2 * mebibyte)
  const start = begin({ persistentVolumeClaim: { claimName: 'data', source } })
  await launcher.reported('it was tried three times', triedThreeTimes)
  expect(server.requests()).toHaveLength(1)
  await makeRoom()
  expect(await start).toMatchObject({ phase: 'Running' })
  expect(server.requests()).toHaveLength(2)
})

/** A file system that the test sees, too; a device in a file of it has room when its file system has. */
async function makeSmallFileSystem(): Promise<string> {
  const { outside } = await makeRunDirectory(libvirtRootfs())
  await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', `size=${8 * mebibyte}`, 'tmpfs', outside])
  onTestFinished(async () => {
    // The kernel can detach a loop device of a file in it late.
    await promisify(execFile)('umount', ['--lazy', outside])
    await rm(outside, { recursive: true })
  })
  return outside
}

async function makeDevice(folder: string): Promise<string> {
  const backing = join(folder, 'backing')
  await writeFile(backing, '')
  await truncate(backing, 2 * sizeMiB * mebibyte)
  const device = await attachLoop(backing)
  onTestFinished(() => detachLoop(device))
  await addBlockVolume(launcher.blocks, device)
  return device
}

test.each<[keyof typeof sources]>([['image, raw'], ['image, qcow2'], ['claim'], ['http, qcow2']])(
  'a claim with a block volume whose storage is full is filled when it has room: %s',
  async (kind) => {
    launcher = await startLauncher()
    const source = await sources[kind]()
    const folder = await makeSmallFileSystem()
    const device = await makeDevice(folder)
    const makeRoom = await fill(folder, 8 * mebibyte, 2 * mebibyte)
    const start = begin({ persistentVolumeClaim: { claimName: 'data', source } })
    const { phase, message } = await noSpace()
    expect({ phase, message }).toEqual({
      phase: 'Defined',
      message: `${cannotBeFilled}the storage of its block device is full: up to ${content.length} bytes are needed; trying again in 1 s`,
    })
    // Whatever happens now, it is not taken for a disk.
    const { buffer } = await open(device).then(async (opened) => {
      await using file = opened
      return file.read(Buffer.alloc(512), 0, 512, 0)
    })
    expect(buffer.toString('latin1')).toContain('virtset: this disk is being filled')
    await bootsWithRoom(async () => device, start, makeRoom)
  },
)

test.each(['raw', 'qcow2'] as const)(
  'a block volume is filled from a web server when the node has room for the download: %s',
  async (format) => {
    launcher = await startLauncher({ sourcesBytes: 8 * mebibyte })
    const source = await served(format)
    const folder = await makeRunDirectory(libvirtRootfs())
    onTestFinished(() => rm(folder.outside, { recursive: true }))
    const device = await makeDevice(folder.outside)
    const makeRoom = await fill(await launcher.inPod('sources'), 8 * mebibyte, 2 * mebibyte)
    const start = begin({ persistentVolumeClaim: { claimName: 'data', source } })
    const { message = '' } = await noSpace()
    expect(message).toContain(`${cannotBeFilled}the disk of the node, where the download is stored, is full: up to `)
    expect(missingIn(message).needed).toBeGreaterThanOrEqual(content.length)
    expect((await readFile(device)).every((byte) => byte === 0)).toBe(true)
    await bootsWithRoom(async () => device, start, makeRoom)
    expect(await readdir(join(await launcher.inPod('sources'), 'root'))).toEqual([])
  },
)

test('a disk in an image starts when there is room for what its guest changes', async () => {
  launcher = await startLauncher({ volumesBytes: 8 * mebibyte })
  const base = await makeImage('raw')
  const volumes = await launcher.inPod('volumes')
  await makeOwned(join(volumes, 'root'))
  const makeRoom = await fill(volumes, 8 * mebibyte, 32 * 1024)
  await chown(join(volumes, 'filler'), uid, uid)
  const start = begin({ image: { reference: 'disks/test:1' } }, 'qcow2')
  const { message = '' } = await noSpace()
  expect(message).toContain('volume "root": the image disks/test:1: the disk of the node is full: ')
  missingIn(message)
  await bootsWithRoom(async () => base, start, makeRoom)
})

import { execFile } from 'node:child_process'
import {
  appendFile,
  chmod,
  chown,
  mkdir,
  open,
  readFile,
  readdir,
  readlink,
  rename,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sourceDeviceName } from '../../api/claim-volume.ts'
import type { ImageVolume } from '../../api/volume.ts'
import type { DomainReport } from '../../runtime/launcher-api.ts'
import { eventually, until } from '../until.ts'
import { type FileServer, sha256, startFileServer } from '../file-server.ts'
import { addBlockVolume, attachLoop, detachLoop, guestEchoes, inside, qemuImg } from './claim.ts'
import { type GuestProgram, guestDisk } from './guest.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { uid as launcherUid } from './rootfs.ts'
import { vmOnVolume, volumeDisk } from './vm.ts'

const mebibyte = 1024 * 1024

let launcher: RunningLauncher

async function startPod(...options: Parameters<typeof startLauncher>): Promise<void> {
  launcher = await startLauncher(...options)
  await mkdir(join(launcher.images, 'root/disk'), { recursive: true })
  const changes = join(await launcher.inPod('volumes'), 'root')
  await mkdir(changes)
  await chown(changes, launcherUid, launcherUid)
}

afterEach(() => launcher.stop())

/** Another pod with the same image and claim. */
async function restartPod(): Promise<void> {
  const before = launcher
  await startPod()
  for (const directory of ['volumes', 'images', 'blocks'] as const) {
    await rm(join(launcher[directory], 'root'), { recursive: true, force: true })
    await rename(join(before[directory], 'root'), join(launcher[directory], 'root')).catch((error: unknown) => {
      if (directory !== 'blocks') throw error
    })
  }
  await before.stop()
}

const inImage = (name: string) => join(launcher.images, 'root/disk', name)
const overlay = () => join(launcher.volumes, 'root/disk.qcow2')

/** A disk that boots the program, which the launcher can only read. */
async function bootable(
  name: string,
  format: 'raw' | 'qcow2' | 'vmdk' | 'vdi' | 'vhdx' | 'vpc',
  program: GuestProgram = 'echo',
): Promise<string> {
  const raw = inImage('raw')
  await writeFile(raw, guestDisk(program))
  await qemuImg('convert', '-f', 'raw', '-O', format, inside(raw), inside(inImage(name)))
  await rm(raw)
  await chmod(inImage(name), 0o444)
  return inImage(name)
}

const put = (image: Partial<ImageVolume> = {}, claim?: object) =>
  launcher.put(
    claim === undefined
      ? vmOnVolume({ image: { reference: 'disks/test:1', ...image } }, volumeDisk('root', 'vda', 'qcow2'))
      : vmOnVolume({ persistentVolumeClaim: { claimName: 'data', ...claim } }),
  )

/** The files of the VM's volumes that QEMU has open. */
async function openFiles(): Promise<readonly string[]> {
  const [pid] = await launcher.pids('qemu-system-x86')
  const links = (await readdir(`/proc/${pid}/fd`)).map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => ''))
  const paths = (await Promise.all(links)).filter((path) => /\/(?:images|volumes)\//.test(path))
  return [...new Set(paths)].map((path) => path.replace(/^.*\/(?=(?:images|volumes)\/)/, '')).toSorted()
}

describe('the disk of an image', () => {
  beforeEach(() => startPod())

  test.each(['qcow2', 'raw'] as const)('in format %s boots, and is not written to', async (format) => {
    const base = await bootable('disk', format)
    const before = await readFile(base)
    const report = await put({ capacity: '8Mi' })
    expect(report.phase).toBe('Running')
    const drift = report.specDrift?.map(({ field }) => field) ?? []
    expect(drift.filter((field) => /disks\[0\]\.(?:driver|source|backingStore)/.test(field))).toEqual([])
    await guestEchoes(launcher)
    expect(await openFiles()).toEqual(['images/root/disk/disk', 'volumes/root/disk.qcow2'])
    expect(JSON.parse(await qemuImg('info', '-U', '--output=json', inside(overlay())))).toMatchObject({
      format: 'qcow2',
      'virtual-size': 8 * 1024 * 1024,
      'backing-filename': inside(base),
      'backing-filename-format': format,
    })
    expect(await readFile(base)).toEqual(before)
  })

  test('has a chain that is stated and that ends', async () => {
    const base = await bootable('disk', 'qcow2')
    const { domain } = await put()
    expect(domain?.['devices']).toMatchObject({
      disks: [
        {
          type: 'file',
          driver: { type: 'qcow2', discard: 'unmap' },
          source: { file: inside(overlay()) },
          backingStore: { type: 'file', format: { type: 'qcow2' }, source: { file: inside(base) }, backingStore: {} },
        },
      ],
    })
  })
})

describe('an image is refused, and QEMU is not started,', () => {
  beforeEach(() => startPod())

  const create = (...args: string[]) => qemuImg('create', '-q', '-f', 'qcow2', ...args)
  const secret = () => join(launcher.volumes, 'secret')
  const converted = (format: 'vmdk' | 'vdi' | 'vhdx' | 'vpc') => () => bootable('disk', format)

  test.each<[string, () => Promise<unknown>, Partial<ImageVolume>, string]>([
    [
      'whose disk has a backing file',
      () => create('-u', '-b', inside(secret()), '-F', 'raw', inside(inImage('disk')), `${mebibyte}`),
      {},
      '"/disk/disk" has a backing file',
    ],
    [
      'whose disk has an external data file',
      () => create('-o', `data_file=${inside(secret())},data_file_raw=on`, inside(inImage('disk')), `${mebibyte}`),
      {},
      '"/disk/disk" has an external data file',
    ],
    [
      'whose disk is encrypted',
      () =>
        create(
          '--object',
          'secret,id=key,data=key',
          '-o',
          'encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time=10',
          inside(inImage('disk')),
          `${mebibyte}`,
        ),
      {},
      '"/disk/disk" is encrypted',
    ],
    ['whose disk is vmdk', converted('vmdk'), {}, '"/disk/disk" has the format vmdk'],
    ['whose disk is vdi', converted('vdi'), {}, '"/disk/disk" has the format vdi'],
    ['whose disk is vhdx', converted('vhdx'), {}, '"/disk/disk" has the format vhdx'],
    ['whose disk is vhd', converted('vpc'), {}, '"/disk/disk" has the format vpc'],
    [
      'whose disk is too large for its capacity',
      () => create(inside(inImage('disk')), '1G'),
      { capacity: '512Mi' },
      'is a disk of 1073741824 bytes, which is more than image.capacity',
    ],
    [
      'whose disk states an absurd size',
      () => create(inside(inImage('disk')), '1P'),
      {},
      'set image.capacity to at least that',
    ],
    [
      'whose disk only root can read',
      () => bootable('disk', 'raw').then((path) => chmod(path, 0o600)),
      {},
      '"/disk/disk" cannot be read by user 107',
    ],
    ['without a disk', async () => {}, {}, 'has no file in /disk'],
  ])('%s', async (_, arrange, image, message) => {
    await writeFile(secret(), Buffer.alloc(mebibyte))
    await arrange()
    const report = await put(image)
    expect(report).toMatchObject({ phase: 'Gone', reason: 'volumeUnavailable', exit: 'Failed' })
    expect(report.message).toContain(`volume "root": the image disks/test:1: `)
    expect(report.message).toContain(message)
    expect(await launcher.pids('qemu-system-x86')).toEqual([])
  })
})

test('a guest whose changes find no space is paused, and continues when there is space', async () => {
  await startPod({ volumesBytes: 8 * mebibyte })
  await bootable('disk', 'raw', 'fillDisk')
  const filler = join(await launcher.inPod('volumes'), 'filler')
  await writeFile(filler, Buffer.alloc(6 * mebibyte))
  await put({ capacity: '4Mi' })
  const paused = await launcher.reported('the guest is paused', ({ phase }) => phase === 'Paused')
  expect(paused).toMatchObject({
    reason: 'ioerror',
    message: 'the guest is paused: disk vda (volume "root") has no space left; it continues when there is space',
  })
  await rm(filler)
  const changes = join(await launcher.inPod('volumes'), 'root/disk.qcow2')
  await eventually('the guest has written to the whole disk', async () => (await stat(changes)).size > 4 * mebibyte)
  const running = await launcher.reported('the guest runs', ({ phase }) => phase === 'Running')
  expect(running).toMatchObject({ reason: 'unpaused' })
})

describe('a claim that has no disk', () => {
  beforeEach(() => startPod())

  const claimed = (claim: object) => put({}, claim)
  const fromImage = { source: { image: { reference: 'disks/test:1' } } }
  const disk = () => join(launcher.volumes, 'root/disk.img')

  test('is filled from an image, and its disk has the size of its capacity', async () => {
    const base = await readFile(await bootable('disk', 'qcow2').then(() => rawOf('disk')))
    // What another attempt left when it was killed.
    await writeFile(join(launcher.volumes, 'root/disk.img.other-vm.unfinished'), 'half')
    const report = await claimed({ ...fromImage, capacity: '8Mi' })
    expect(report).toMatchObject({ phase: 'Running' })
    await guestEchoes(launcher)
    expect(await readdir(join(launcher.volumes, 'root'))).toEqual(['disk.img'])
    const filled = await readFile(disk())
    expect(filled.length).toBe(8 * mebibyte)
    expect(filled.subarray(0, base.length).equals(base)).toBe(true)
    expect(await openFiles()).toEqual(['volumes/root/disk.img'])
  })

  test('is not filled again, and grows', async () => {
    await writeFile(disk(), guestDisk('echo'))
    await chown(disk(), launcherUid, launcherUid)
    await bootable('disk', 'raw', 'fillDisk')
    expect(await claimed({ ...fromImage, capacity: '4Mi' })).toMatchObject({ phase: 'Running' })
    await guestEchoes(launcher)
    expect((await stat(disk())).size).toBe(4 * mebibyte)
  })

  /** Takes a second to copy, so that it can be interrupted. */
  const large = () => bootable('disk', 'raw').then((path) => appendFile(path, Buffer.alloc(512 * mebibyte, 1)))

  /** Starts to fill the claim, and kills a process meanwhile. */
  async function killDuringCopy(command: string, isCopying: () => Promise<boolean>): Promise<DomainReport | undefined> {
    const report = claimed(fromImage).catch(() => undefined)
    const isKilled = async () => {
      const pids = (await isCopying()) ? await launcher.pids(command) : []
      for (const pid of pids) process.kill(pid, 'SIGKILL')
      return pids.length > 0
    }
    await until(isKilled, () => {})
    return report
  }

  /** The next start fills the claim, and its guest boots. */
  async function fillsAgain(path: () => string): Promise<void> {
    await restartPod()
    expect(await claimed(fromImage)).toMatchObject({ phase: 'Running' })
    await guestEchoes(launcher)
    await promisify(execFile)('cmp', ['-n', String((await stat(inImage('disk'))).size), inImage('disk'), path()])
  }

  test('is filled from the beginning after qemu-img was killed', async () => {
    await large()
    const files = () => readdir(join(launcher.volumes, 'root'))
    expect(await killDuringCopy('qemu-img', async () => (await files()).length > 1)).toMatchObject({
      phase: 'Gone',
      reason: 'volumeUnavailable',
      message: 'volume "root": the claim data cannot be filled: qemu-img ended with SIGKILL',
    })
    expect(await files()).toEqual(['disk.img.filling.unfinished'])
    await fillsAgain(disk)
  })

  test('is a copy of another claim, which is raw whatever its guest wrote to it', async () => {
    const source = join(launcher.sources, 'root')
    await mkdir(source)
    await qemuImg('create', '-f', 'qcow2', '-b', '/etc/hostname', '-F', 'raw', inside(join(source, 'disk.img')), '1M')
    await chmod(join(source, 'disk.img'), 0o444)
    await claimed({ source: { claim: { claimName: 'other' } } })
    const copied = await readFile(join(source, 'disk.img'))
    // Without the zeros up to the end of a sector.
    expect((await readFile(disk())).subarray(0, copied.length).equals(copied)).toBe(true)
  })

  describe('and whose source is a web server', () => {
    let server: FileServer
    beforeEach(async () => {
      server = await startFileServer()
      await mkdir(join(launcher.sources, 'root'))
      await chown(join(launcher.sources, 'root'), launcherUid, launcherUid)
    })
    afterEach(() => server.close())

    const fromServer = (file: Buffer, more: object = {}) =>
      claimed({ source: { http: { url: `${server.url}/a?token=hidden`, checksum: sha256(file) } }, ...more })
    const content = (name: string) => readFile(inImage(name))

    test.each(['qcow2', 'raw'] as const)(
      'is filled from %s, after a server that failed in many ways',
      async (format) => {
        const file = await bootable('disk', format).then(() => content('disk'))
        const base = await readFile(await rawOf('disk'))
        // What an attempt left that was killed while it downloaded.
        await writeFile(join(launcher.volumes, 'root/disk.img.other-vm-source.unfinished'), 'half')
        server.answers({ status: 500 })
        const report = fromServer(file, { capacity: '8Mi' })
        const failed = await launcher.reported('it failed', ({ reason }) => reason === 'downloadFailed')
        expect(failed.message?.replace(/\d+ s$/, 'SECONDS')).toBe(
          `volume "root": the claim data cannot be filled: ${server.url}/a: the server responded with status 500; trying again in SECONDS`,
        )
        server.answers({ status: 200, body: file, send: file.length / 2 })
        await launcher.reported('it was cut off', ({ message = '' }) =>
          message.includes(`${server.url}/a: the connection was cut off: `),
        )
        server.answers({ status: 302, location: '/b' }, { status: 200, body: file })
        expect(await report).toMatchObject({ phase: 'Running' })
        await guestEchoes(launcher)
        // On a busy machine, an attempt can fail more than once in the same way.
        const requests = server.requests()
        expect(requests.length).toBeGreaterThanOrEqual(4)
        expect([new Set(requests.slice(0, -1)), requests.at(-1)]).toEqual([new Set(['/a?token=hidden']), '/b'])
        expect(await readdir(join(launcher.volumes, 'root'))).toEqual(['disk.img'])
        const filled = await readFile(disk())
        expect(filled.length).toBe(8 * mebibyte)
        expect(filled.subarray(0, base.length).equals(base)).toBe(true)
        expect(launcher.log()).not.toContain('hidden')
      },
    )

    test('fails the VM for a disk with a backing file, and leaves only the lock', async () => {
      await qemuImg('create', '-u', '-f', 'qcow2', '-b', '/etc/hostname', '-F', 'raw', inside(inImage('disk')), '1M')
      const file = await content('disk')
      server.answers({ status: 200, body: file })
      const report = await fromServer(file)
      expect(report).toMatchObject({ phase: 'Gone', reason: 'volumeUnavailable' })
      expect(report.message).toContain(
        `volume "root": the claim data cannot be filled: ${server.url}/a has a backing file`,
      )
      expect(await readdir(join(launcher.volumes, 'root'))).toEqual(['disk.img.filling.unfinished'])
    })

    test('is not filled when the pod does not ask for it, because it was filled before', async () => {
      await rm(join(launcher.sources, 'root'), { recursive: true })
      const report = await fromServer(Buffer.alloc(0))
      expect(report).toMatchObject({ phase: 'Gone', message: 'volume "root": the claim data has no file disk.img' })
      expect(server.requests()).toEqual([])
    })
  })

  describe('and is a block volume', () => {
    let device: string
    let backing: string
    beforeEach(async () => {
      backing = join(launcher.blocks, 'backing')
      await writeFile(backing, '')
      await truncate(backing, 8 * mebibyte)
      device = await attachLoop(backing)
      await addBlockVolume(launcher.blocks, device)
    })
    afterEach(() => detachLoop(device))

    async function grow(bytes: number): Promise<void> {
      await truncate(backing, bytes)
      await promisify(execFile)('losetup', ['--set-capacity', device])
    }

    test.each([
      ['is filled', async () => {}],
      ['is filled from the beginning after an attempt that was killed', () => killedAttempt()],
    ])('%s', async (_, arrange) => {
      await bootable('disk', 'qcow2')
      const base = await readFile(await rawOf('disk'))
      await arrange()
      expect(await claimed(fromImage)).toMatchObject({ phase: 'Running' })
      await guestEchoes(launcher)
      expect((await readFile(device)).subarray(0, base.length).equals(base)).toBe(true)
    })

    test('and grows, the running guest sees that', async () => {
      await bootable('disk', 'qcow2')
      expect(await claimed(fromImage)).toMatchObject({ phase: 'Running' })
      await grow(16 * mebibyte)
      await eventually('QEMU uses the new size', () => launcher.log().includes('the disk has grown'))
      const socket = join(launcher.insideSockets, '../private/run/libvirt/libvirt-sock')
      const virsh = ['virsh', '-c', `qemu+unix:///session?socket=${socket}`, 'domblkinfo', 'testvm', 'vda']
      const [pid] = await launcher.pids('virt-launcher')
      const { stdout } = await promisify(execFile)('chroot', [`/proc/${pid}/root`, ...virsh])
      expect(stdout).toMatch(new RegExp(`^Capacity: +${16 * mebibyte}$`, 'm'))
    })

    test('is filled from a web server', async () => {
      const directory = join(launcher.sources, 'root')
      await mkdir(directory)
      await chown(directory, launcherUid, launcherUid)
      await using server = await startFileServer()
      const file = await bootable('disk', 'qcow2').then((path) => readFile(path))
      const base = await readFile(await rawOf('disk'))
      server.answers({ status: 200, body: file })
      const source = { http: { url: `${server.url}/a`, checksum: sha256(file) } }
      expect(await claimed({ source })).toMatchObject({ phase: 'Running' })
      await guestEchoes(launcher)
      expect((await readFile(device)).subarray(0, base.length).equals(base)).toBe(true)
      expect(await readdir(directory)).toEqual([])
    })

    test.each([
      ['with a first MiB of zeros', Buffer.alloc(2 * mebibyte), 'the first MiB of the source is zero'],
      [
        'that begins like one that is being filled',
        Buffer.concat([
          Buffer.alloc(512, 1),
          Buffer.from('virtset: this disk is being filled\n'),
          Buffer.alloc(mebibyte),
        ]),
        'the source begins like a claim that is being filled',
      ],
    ])('is left as it is by a source %s', async (_, start, words) => {
      const body = Buffer.concat([start, Buffer.alloc(-start.length & 511), Buffer.alloc(512, 1)])
      const directory = join(launcher.sources, 'root')
      await mkdir(directory)
      await chown(directory, launcherUid, launcherUid)
      await using server = await startFileServer()
      server.answers({ status: 200, body })
      const source = { http: { url: `${server.url}/a`, checksum: sha256(body) } }
      const report = await claimed({ source })
      expect(report).toMatchObject({ phase: 'Gone', reason: 'volumeUnavailable' })
      expect(report.message).toContain(words)
      expect((await readFile(device)).every((byte) => byte === 0)).toBe(true)
    })

    test('is left as it is by a download that has another checksum', async () => {
      const directory = join(launcher.sources, 'root')
      await mkdir(directory)
      await chown(directory, launcherUid, launcherUid)
      await using server = await startFileServer()
      const file = await bootable('disk', 'qcow2').then((path) => readFile(path))
      server.answers({ status: 200, body: file })
      const source = { http: { url: `${server.url}/a`, checksum: sha256(Buffer.alloc(1)) } }
      const report = await claimed({ source })
      expect(report).toMatchObject({ phase: 'Gone', reason: 'volumeUnavailable' })
      expect(report.message).toContain('does not have the checksum sha256:')
      expect((await readFile(device)).every((byte) => byte === 0)).toBe(true)
      expect(await readdir(directory)).toEqual([])
    })

    test('is filled from the beginning after its launcher was killed', async () => {
      await large()
      await grow(514 * mebibyte)
      const first = await open(device)
      const isMarked = async () => {
        const { buffer } = await first.read(Buffer.alloc(512), 0, 512, 0)
        return buffer.toString('latin1').startsWith('virtset: this disk is being filled')
      }
      await killDuringCopy('virt-launcher', async () => (await launcher.pids('qemu-img')).length > 0 && isMarked())
      await launcher.exitCode
      expect(await isMarked()).toBe(true)
      await first.close()
      await fillsAgain(() => device)
    })

    const unavailable = (words: string) => ({
      phase: 'Gone',
      reason: 'volumeUnavailable',
      message: `volume "root": the claim data ${words}`,
    })

    test('is not used by a VM without a source before it is filled', async () => {
      await killedAttempt()
      expect(await claimed({})).toMatchObject(unavailable('was not filled to the end, or another VM is filling it'))
    })

    test('is not taken for a disk if it is new, and the pod has no source because it was filled before', async () => {
      expect(await claimed({ source: { claim: { claimName: 'golden' } } })).toMatchObject(
        unavailable('has no disk, because its first MiB is zero, and its source is not in the pod'),
      )
    })

    test.each([{}, { source: { empty: {} }, capacity: '8Mi' }])(
      'is an empty disk if it is new and nothing fills it: %j',
      async (claim) => {
        expect(await claimed(claim)).toMatchObject({ phase: 'Running' })
      },
    )

    test.each([
      ['has no disk, because its first MiB is zero', async () => {}],
      ['was not filled to the end, or is being filled', () => killedAttempt()],
    ])('is not copied to another claim if it %s', async (words, arrange) => {
      await arrange()
      await rename(join(launcher.blocks, 'root'), join(launcher.blocks, sourceDeviceName('root')))
      expect(await claimed({ source: { claim: { claimName: 'golden' } } })).toMatchObject(
        unavailable(`cannot be filled: the claim golden ${words}`),
      )
      expect(await readdir(join(launcher.volumes, 'root'))).toEqual(['disk.img.filling.unfinished'])
    })

    /** The sectors that are written last are torn: one has its data, the others still have the mark. */
    async function killedAttempt(): Promise<void> {
      const mark = Buffer.alloc(512)
      mark.write('virtset: this disk is being filled\n')
      const sectors = [Buffer.alloc(512, 7), ...Array.from({ length: 7 }, () => mark)]
      await promisify(execFile)('dd', ['if=/dev/urandom', `of=${device}`, 'bs=1M', 'count=2', 'conv=fsync'])
      await writeFile(inImage('sectors'), Buffer.concat(sectors))
      await promisify(execFile)('dd', [`if=${inImage('sectors')}`, `of=${device}`, 'conv=notrunc,fsync'])
      await rm(inImage('sectors'))
    }
  })

  /** The content of a disk in the image. */
  async function rawOf(name: string): Promise<string> {
    const raw = join(launcher.sources, 'raw')
    await qemuImg('convert', '-O', 'raw', inside(inImage(name)), inside(raw))
    return raw
  }
})

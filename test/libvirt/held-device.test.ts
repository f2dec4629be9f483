import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, mkdir, open, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { sourceDeviceName } from '../../api/claim-volume.ts'
import type { DomainReport } from '../../runtime/launcher-api.ts'
import { eventually } from '../until.ts'
import { type AttachedPod, startAttachedPod } from './attached-pod.ts'
import { addBlockVolume, attachLoop, detachLoop, guestEchoes } from './claim.ts'
import { guestDisk } from './guest.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { libvirtRootfs, makeOwned, makeRunDirectory } from './rootfs.ts'
import { vmOnVolume, volumeDisk } from './vm.ts'

/** Launchers of one node reach a device by nodes of their own, as the container runtime makes them. */
const bootSector = guestDisk('echo').subarray(0, 512)
const makeContent = () => Buffer.concat([bootSector, randomBytes(16 * 2 ** 20 - bootSector.length)])

interface Device {
  readonly path: string
  content(): Promise<Buffer>
}

/** A device with a guest, or a new one. */
async function makeDevice(content?: Buffer): Promise<Device> {
  const { outside } = await makeRunDirectory(libvirtRootfs())
  const backing = join(outside, 'backing')
  await writeFile(backing, content ?? '')
  await truncate(backing, 16 * 2 ** 20)
  const path = await attachLoop(backing)
  onTestFinished(async () => {
    await detachLoop(path)
    await rm(outside, { recursive: true })
  })
  return {
    path,
    async content() {
      await using device = await open(path)
      return (await device.read(Buffer.alloc(16 * 2 ** 20), 0, 16 * 2 ** 20, 0)).buffer
    },
  }
}

/** A launcher that has the device as its volume `root`, but no VM yet. */
async function launcherWith({ path }: Device): Promise<RunningLauncher> {
  const launcher = await startLauncher()
  onTestFinished(() => launcher.stop())
  await addBlockVolume(launcher.blocks, path)
  return launcher
}

/** Starts a VM with this disk. */
const put = (launcher: RunningLauncher, disk: object = {}, claim: object = {}): Promise<DomainReport> =>
  launcher.put(
    vmOnVolume({ persistentVolumeClaim: { claimName: 'data', ...claim } }, { ...volumeDisk('root', 'vda'), ...disk }),
  )

const running = { phase: 'Running' }
const refused = {
  phase: 'Gone',
  reason: 'startFailed',
  message: expect.stringContaining(
    'volume "root": the disk of the claim "data" is in use on its node, by another VM or by the node itself',
  ),
  exit: 'Failed',
}

const [writer, shared, reader, sharedReader] = [
  {},
  { shareable: {} },
  { readonly: {} },
  { shareable: {}, readonly: {} },
]

test.each<{ readonly first: object; readonly second: object; readonly outcome: object }>([
  { first: writer, second: writer, outcome: refused },
  { first: writer, second: shared, outcome: refused },
  { first: writer, second: reader, outcome: refused },
  { first: writer, second: sharedReader, outcome: running },
  { first: shared, second: shared, outcome: running },
  { first: reader, second: reader, outcome: running },
])('a device is used by a disk $first, and a second VM with a disk $second is $outcome.phase', async (one) => {
  const device = await makeDevice(makeContent())
  const launchers = [await launcherWith(device), await launcherWith(device)] as const
  expect(await put(launchers[0], one.first)).toMatchObject(running)
  expect(await put(launchers[1], one.second)).toMatchObject(one.outcome)
  await guestEchoes(launchers[0])
})

test('a device is held until its pod ends, also while libvirtd is started again, and the next VM can have it', async () => {
  const device = await makeDevice(makeContent())
  const [first, second, third] = [await launcherWith(device), await launcherWith(device), await launcherWith(device)]
  await first.signal('libvirtd', 'SIGSTOP')
  const start = put(first)
  await eventually('the device is held', () => isHeld(device))
  // The launcher prepares the volumes again.
  await first.signal('libvirtd', 'SIGKILL')
  expect(await start).toMatchObject(running)
  expect(await put(second)).toMatchObject(refused)
  await first.stop()
  expect(await put(third)).toMatchObject(running)
})

const isHeld = ({ path }: Device): Promise<boolean> =>
  open(path, constants.O_RDONLY | constants.O_EXCL).then(
    (handle) => handle.close().then(() => false),
    () => true,
  )

/** A launcher whose claim is filled from an image with this content. */
async function fillingLauncher(device: Device, content: Buffer): Promise<RunningLauncher> {
  const launcher = await launcherWith(device)
  const folder = join(launcher.images, 'root/disk')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'disk'), content, { mode: 0o444 })
  return launcher
}
const source = { source: { image: { reference: 'disks/test:1' } } }

test.each([
  { disk: writer, outcomes: [refused, running] },
  { disk: shared, outcomes: [running, running] },
])('of two VMs with a disk $disk that are to fill a new device, one does', async ({ disk, outcomes }) => {
  const contents = [makeContent(), makeContent()] as const
  const device = await makeDevice()
  const launchers = [await fillingLauncher(device, contents[0]), await fillingLauncher(device, contents[1])] as const
  const reports = await Promise.all(launchers.map((launcher) => put(launcher, disk, source)))
  expect(reports.toSorted((a, b) => a.phase.localeCompare(b.phase))).toMatchObject(outcomes)
  const filled = await device.content()
  const fillers = contents.filter((content) => content.equals(filled))
  expect(fillers).toHaveLength(1)
  const winner = outcomes[0] === refused ? contents.findIndex((content) => content.equals(filled)) : 0
  expect(reports[winner]).toMatchObject(running)
  await guestEchoes(launchers[winner === 0 ? 0 : 1])
})

test('a device is not copied while a VM writes to it', async () => {
  const [from, to] = [await makeDevice(makeContent()), await makeDevice()]
  const [user, copier, later] = [await launcherWith(from), await launcherWith(to), await launcherWith(to)]
  for (const { blocks } of [copier, later]) await addBlockVolume(blocks, from.path, sourceDeviceName('root'))
  const copy = { source: { claim: { claimName: 'other' } } }
  expect(await put(user)).toMatchObject(running)
  expect(await put(copier, {}, copy)).toMatchObject({
    reason: 'volumeUnavailable',
    message: 'volume "root": the claim data cannot be filled: the claim other is in use by another VM or process',
  })
  await copier.stop()
  await user.stop()
  expect(await put(later, {}, copy)).toMatchObject(running)
  expect((await to.content()).equals(await from.content())).toBe(true)
})

test('a device that the launcher may not open is refused', async () => {
  const launcher = await launcherWith(await makeDevice(makeContent()))
  await chmod(join(launcher.blocks, 'root'), 0)
  expect(await put(launcher)).toMatchObject({
    reason: 'volumeUnavailable',
    message: expect.stringContaining('volume "root": the claim data cannot be opened: EACCES'),
  })
})

/** A pod that serves the device to a running guest. */
async function attach({ path }: Device, isReadOnly: boolean): Promise<AttachedPod> {
  const { outside } = await makeRunDirectory(libvirtRootfs())
  await makeOwned(join(outside, 'socket'))
  await addBlockVolume(outside, path, 'block')
  const env = isReadOnly ? { VIRTSET_READ_ONLY: 'yes' } : {}
  const pod = await startAttachedPod('5b0c0f4e-6d2a-4c2b-9a53-000000000104', { claim: join(outside, 'block'), env })
  onTestFinished(async () => {
    await pod.stop()
    await rm(outside, { recursive: true })
  })
  return pod
}

const inUse = 'another VM uses the disk in the claim'
const outcome = async (pod: AttachedPod): Promise<string> => {
  const ended = pod.exitCode.then((code) => `${code}: ${pod.log().trim()}`)
  return Promise.race([ended, pod.listens().then(() => 'serves')])
}

test('a device that a VM writes to is attached to no other guest', async () => {
  const device = await makeDevice(makeContent())
  expect(await put(await launcherWith(device))).toMatchObject(running)
  for (const isReadOnly of [false, true]) {
    expect(await outcome(await attach(device, isReadOnly))).toMatch(new RegExp(`^[1-9]\\d*: ${inUse}$`))
  }
})

test('a device that is attached to a guest is refused to a VM and to another guest until its pod ends', async () => {
  const device = await makeDevice(makeContent())
  const pod = await attach(device, false)
  expect(await outcome(pod)).toBe('serves')
  for (const isReadOnly of [false, true]) expect(await outcome(await attach(device, isReadOnly))).toContain(inUse)
  expect(await put(await launcherWith(device))).toMatchObject(refused)
  await pod.terminate()
  expect(await pod.exitCode).toBe(0)
  expect(await put(await launcherWith(device))).toMatchObject(running)
})

test('a device that guests only read is attached to several', async () => {
  const device = await makeDevice(makeContent())
  for (const isReadOnly of [true, true]) expect(await outcome(await attach(device, isReadOnly))).toBe('serves')
})

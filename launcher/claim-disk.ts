import { execFile } from 'node:child_process'
import { lstat, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { ClaimDiskUse } from '../api/claim-disk-use.ts'
import { downloadBytes, type ClaimVolume } from '../api/claim-volume.ts'
import { shownUrl } from '../api/http-source.ts'
import { quantityValue } from '../api/quantity.ts'
import type { Clock } from '../runtime/clock.ts'
import type { ConvertedDisk } from './convert-disk.ts'
import { fillDevice, stateOfDevice } from './fill-device.ts'
import { bytesOf, fillFile, growFile, sizeInFileSystem, unfinishedPath } from './fill-file.ts'
import { whileFilling } from './filling-lock.ts'
import { downloadDisk } from './http-disk.ts'
import { type HeldDevices, isHeld } from './held-device.ts'
import { findImageDisk } from './image-disk.ts'
import { heldDeviceMessage } from './locked-disk.ts'
import { type AttemptWithMoreRoom, writingTo } from './no-space.ts'
import { kindOf } from './path-kind.ts'
import { downloadFailed, type fillingDisk, type noSpace } from '../runtime/launcher-api.ts'
import { Refused } from './refused.ts'
import { repeat } from './repeat.ts'
import type { VolumeSource } from './render.ts'

export interface ClaimContext {
  /** The claim, if it is a file system. */
  readonly directory: string
  /** The claim, if it is a block volume. */
  readonly block: string
  /** The root of the image that the claim is filled from, until it is filled. */
  readonly image: string
  /** The claim that it is filled from, or a directory if it is filled from a web server and has not been yet. */
  readonly sourceDirectory: string
  readonly sourceBlock: string
  readonly scratch: string
  /** The uid of the VM. */
  readonly writer: string
  /** Undefined without a disk: it can be a CD later. */
  readonly use: ClaimDiskUse | undefined
  readonly devices: HeldDevices
  /** Whether this launcher tried before, and there was no space. */
  readonly isRetry: boolean
  /** Spares the web server downloads for which there is no space. */
  readonly attemptWithMoreRoom: AttemptWithMoreRoom
  readonly clock: Clock
  readonly onProgress: OnProgress
}

/** Called with a message for the user. Without a reason: a claim is being filled. */
export type OnProgress = (message: string, reason?: FillingReason) => void
type FillingReason = typeof fillingDisk | typeof downloadFailed | typeof noSpace

/** A disk to copy, and what it is for messages. */
interface Source extends ConvertedDisk {
  readonly name: string
}

/**
 * Finds the disk in a claim. If the claim has none, makes it of the claim's source; lets its file grow to the capacity.
 * Can be repeated if there was no space.
 * @throws Refused VolumeUnavailable or StartFailed, with a message for the user
 */
export async function prepareClaim(name: string, claim: ClaimVolume, context: ClaimContext): Promise<VolumeSource> {
  const isReadOnly = claim.readOnly ?? false
  const refuse = (message: string, cause?: unknown): never => {
    const text = `volume "${name}": the claim ${claim.claimName} ${message}`
    throw new Refused('VolumeUnavailable', text, cause === undefined ? {} : { cause })
  }
  const refusing = <T>(what: string, work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      if (error instanceof Refused) throw error
      return refuse(`${what}: ${error instanceof Error ? error.message : String(error)}`, error)
    })
  const look = (path: string) => refusing('cannot be opened', kindOf(path))
  const task = { name, claim, context, refuse }
  if ((await look(context.block)) === 'block') {
    const fill = () => refusing('cannot be filled', prepareDevice(task))
    await refusing('cannot be opened', prepareBlock(task, fill))
    // One without a source has filled nothing, and another VM may have begun to.
    const state = await refusing('cannot be opened', stateOfDevice(context.block))
    if (state === 'unfinished') refuse('was not filled to the end, or another VM is filling it')
    return { kind: 'block', path: context.block, isReadOnly }
  }
  if ((await look(context.directory)) !== 'directory') return refuse('is not in the pod')
  if (claim.source !== undefined || claim.capacity !== undefined) {
    await refusing('cannot be filled', prepareFile(task))
  }
  const path = join(context.directory, 'disk.img')
  return (await look(path)) === 'file' ? { kind: 'file', path, isReadOnly } : refuse('has no file disk.img')
}

interface Task {
  readonly name: string
  readonly claim: ClaimVolume
  readonly context: ClaimContext
  readonly refuse: (message: string) => never
}

/** What is full, for messages. */
const fileSystem = 'its file system'
const diskOfNode = 'the disk of the node, where the download is stored,'

async function prepareFile(task: Task): Promise<void> {
  const { claim, context } = task
  const { directory } = context
  const isFilled = (await kindOf(join(directory, 'disk.img'))) === 'file'
  const capacity = claim.capacity === undefined ? undefined : quantityValue(claim.capacity)
  if (isFilled) {
    if (capacity === undefined || claim.readOnly === true) return
    return growFile(directory, await sizeInFileSystem(directory, capacity))
  }
  // It has nothing to fill it with: a VM that has must not be disturbed.
  if (claim.source === undefined) return
  await whileFilling(directory, context.isRetry, () =>
    sparingDownloads(task, directory, () => makeFile(task, capacity)),
  )
}

/** @param directory where a download is stored */
async function sparingDownloads({ claim, context }: Task, directory: string, fill: () => Promise<void>): Promise<void> {
  const isDownload = claim.source?.http !== undefined && (await kindOf(context.sourceDirectory)) === 'directory'
  return isDownload ? context.attemptWithMoreRoom(directory, fill) : fill()
}

async function makeFile(task: Task, capacity: bigint | undefined): Promise<void> {
  const { claim, context, refuse } = task
  const { directory, writer } = context
  const target = {
    path: unfinishedPath(directory, `${writer}-source`),
    place: fileSystem,
    // Without a capacity, the disk is as large as its source, and the file system alone is the limit.
    ...(capacity === undefined ? {} : limitsFor(capacity)),
  }
  const source = await findSource(task, target)
  try {
    if (source === undefined && claim.source?.empty === undefined) return
    if (capacity !== undefined && source !== undefined && capacity < source.bytes) {
      refuse(`has a capacity of ${claim.capacity}, and ${source.name} is a disk of ${source.bytes} bytes`)
    }
    const smallest = source?.bytes ?? 0n
    const bytes = capacity === undefined ? smallest : await sizeInFileSystem(directory, capacity, source)
    const filled = source && { ...source, scratch: context.scratch, onPercent: reporter(task, source) }
    const place = { name: fileSystem, directory, bytes: () => smallest, stored: await bytesOf(source?.temporary) }
    await writingTo(place, () => fillFile(filled, { directory, writer, bytes }))
  } finally {
    await removeTemporary(source)
  }
}

async function removeTemporary(source: Source | undefined): Promise<void> {
  if (source?.temporary === undefined) return
  await source.temporary.close()
  await rm(source.path, { force: true })
}

/**
 * Keeps a device from those from whom QEMU's lock keeps a file: it is held for a VM that writes and does not share, and
 * no other VM starts meanwhile but one that reads and shares. It is held while it is filled, too; a VM that does not hold
 * it itself waits for that.
 */
async function prepareBlock({ name, claim, context }: Task, fill: () => Promise<void>): Promise<void> {
  const { block, use, devices, clock, onProgress } = context
  try {
    if (use?.isWriter === true && !use.isShared) {
      await devices.hold(block)
      if (claim.source !== undefined) await fill()
      return
    }
    const fillIfNeeded = async () => {
      if (claim.source !== undefined && (await stateOfDevice(block)) !== 'filled') await devices.during(block, fill)
    }
    await repeat(fillIfNeeded, {
      clock,
      isTemporary: isHeld,
      onRetry: (_, again) =>
        onProgress(
          `volume "${name}": the claim ${claim.claimName} has no disk yet, and another VM or process uses it; ${again}`,
        ),
    })
    const isUnlocked = use === undefined || (use.isShared && !use.isWriter)
    if (!isUnlocked) await devices.check(block)
  } catch (error) {
    if (!isHeld(error)) throw error
    throw new Refused('StartFailed', heldDeviceMessage(name, claim.claimName, error.message), { cause: error })
  }
}

async function prepareDevice(task: Task): Promise<void> {
  const { context } = task
  const state = await stateOfDevice(context.block)
  if (state === 'filled') return
  await sparingDownloads(task, context.sourceDirectory, () => makeDevice(task, state))
}

async function makeDevice(task: Task, state: 'new' | 'unfinished'): Promise<void> {
  const { claim, context, refuse } = task
  const bytes = await sizeOfDevice(context.block)
  const path = join(context.sourceDirectory, 'download')
  const target = { path, place: diskOfNode, ...limitsFor(bytes) }
  const source = await findSource(task, target)
  if (source === undefined) {
    const without = 'and its source is not in the pod'
    if (state === 'unfinished') refuse(`was not filled to the end, ${without}`)
    if (claim.source?.empty === undefined) refuse(`has no disk, because its first MiB is zero, ${without}`)
    return
  }
  try {
    if (bytes < source.bytes) refuse(`has ${bytes} bytes, and ${source.name} is a disk of ${source.bytes} bytes`)
    const onPercent = reporter(task, source)
    onPercent(0)
    await fillDevice(source, context.block, { scratch: context.scratch, onPercent })
  } finally {
    await removeTemporary(source)
  }
}

/** Where a disk is downloaded to, and its limits. */
interface DownloadTarget {
  readonly path: string
  readonly place: string
  readonly maxBytes?: bigint
  readonly maxFileBytes?: bigint
}

/** Of a download for a disk of this size: a server could send a file without end, or a small disk in a large file. */
const limitsFor = (bytes: bigint) => ({ maxBytes: bytes, maxFileBytes: downloadBytes(bytes) })

/** Undefined if the pod has none, because the claim was filled before. */
async function findSource(task: Task, target: DownloadTarget): Promise<Source | undefined> {
  const { name, claim, context, refuse } = task
  const { image, claim: other, http } = claim.source ?? {}
  if (image !== undefined && (await kindOf(context.image)) === 'directory') {
    const { path, format, bytes } = await findImageDisk(name, image, context.image)
    return { path, format, bytes, isDevice: false, name: `the image ${image.reference}` }
  }
  if (http !== undefined && (await kindOf(context.sourceDirectory)) === 'directory') {
    const from = { name: shownUrl(http.url) }
    let report = reporter(task, from)
    report(0)
    const onPercent = (percent: number) => report(percent)
    const onRetry = (cause: string) => {
      report = reporter(task, from)
      context.onProgress(`volume "${name}": the claim ${claim.claimName} cannot be filled: ${cause}`, downloadFailed)
    }
    return { ...from, ...(await downloadDisk(http, { ...target, clock: context.clock, onPercent, onRetry })) }
  }
  if (other === undefined) return undefined
  // A guest writes what it likes to its disk, a header of qcow2 too. It stays raw.
  const found = { format: 'raw' as const, name: `the claim ${other.claimName}` }
  if ((await kindOf(context.sourceBlock)) === 'block') {
    await context.devices.check(context.sourceBlock).catch((error: unknown) => {
      throw isHeld(error) ? new Error(`${found.name} is in use by another VM or process`, { cause: error }) : error
    })
    const state = await stateOfDevice(context.sourceBlock)
    if (state === 'unfinished') refuse(`cannot be filled: ${found.name} was not filled to the end, or is being filled`)
    if (state === 'new') refuse(`cannot be filled: ${found.name} has no disk, because its first MiB is zero`)
    return { ...found, path: context.sourceBlock, isDevice: true, bytes: await sizeOfDevice(context.sourceBlock) }
  }
  if ((await kindOf(context.sourceDirectory)) !== 'directory') return undefined
  const path = join(context.sourceDirectory, 'disk.img')
  if ((await kindOf(path)) !== 'file') refuse(`cannot be filled: the claim ${other.claimName} has no file disk.img`)
  return { ...found, path, isDevice: false, bytes: (await lstat(path, { bigint: true })).size }
}

/** Returns the size in bytes. The device is read as raw, whatever its content. */
async function sizeOfDevice(path: string): Promise<bigint> {
  const { stdout } = await promisify(execFile)('qemu-img', ['info', '-U', '-f', 'raw', '--output=json', path])
  const size: unknown = JSON.parse(stdout)['virtual-size']
  if (typeof size !== 'number') throw new Error(`qemu-img does not report the size of ${path}`)
  return BigInt(size)
}

/** Each step is a write to the API server. */
const percentPerReport = 10

function reporter({ name, claim, context }: Task, source: Pick<Source, 'name'> | undefined): (percent: number) => void {
  let next = 0
  return (percent) => {
    if (percent < next) return
    next = percent - (percent % percentPerReport) + percentPerReport
    context.onProgress(
      `volume "${name}": the claim ${claim.claimName} is being filled from ${source?.name}: ${percent} %`,
    )
  }
}

import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { shorten } from '../api/shorten.ts'
import type { ClaimDiskUse } from '../api/claim-disk-use.ts'
import type { Volume } from '../api/volume.ts'
import { quantityValue } from '../api/quantity.ts'
import { sourceDeviceName } from '../api/claim-volume.ts'
import type { Clock } from '../runtime/clock.ts'
import { noSpace } from '../runtime/launcher-api.ts'
import { type ClaimContext, type OnProgress, prepareClaim } from './claim-disk.ts'
import { seedFiles, seedLabel } from './cloud-init.ts'
import type { HeldDevices } from './held-device.ts'
import { prepareImageDisk } from './image-disk.ts'
import type { Identity } from './identity.ts'
import { filesIn, longestLabel, makeIso } from './iso.ts'
import { kindOf } from './path-kind.ts'
import { createAttemptWithMoreRoom, isFull } from './no-space.ts'
import { Refused } from './refused.ts'
import { repeat } from './repeat.ts'
import type { VolumeSource } from './render.ts'

/**
 * The directories of the pod's volumes: `files/NAME` is a directory, `blocks/NAME` a block device, and `images/NAME`
 * the root of a container image. `sources/NAME` has the files of Secrets and ConfigMaps, the claim that is copied, or
 * what is downloaded.
 */
export interface VolumeDirectories {
  readonly files: string
  readonly blocks: string
  readonly images: string
  readonly sources: string
  /** For small temporary files. */
  readonly scratch: string
}

interface VolumeContext {
  readonly directories: VolumeDirectories
  readonly vm: Identity
  /** How the disks of the VM use it; undefined without a disk. */
  readonly use: ClaimDiskUse | undefined
  readonly devices: HeldDevices
  readonly clock: Clock
  readonly onProgress: OnProgress
}

/**
 * Creates the missing files of a volume in the pod, and returns its source. Idempotent: existing files are not changed.
 * If there is no space for them, it is tried again until there is.
 * @throws Refused VolumeUnavailable or StartFailed, with a message for the user
 */
export function prepareVolume(volume: Volume, context: VolumeContext): Promise<VolumeSource> {
  const attemptWithMoreRoom = createAttemptWithMoreRoom()
  return repeat((isRetry) => attemptVolume(volume, { ...context, isRetry, attemptWithMoreRoom }), {
    clock: context.clock,
    isTemporary: isFull,
    onRetry: (message, again) => context.onProgress(`${shorten(message, longestCause)}; ${again}`, noSpace),
  })
}

/** That of qemu-img can have its command line. */
const longestCause = 1000

async function attemptVolume(
  volume: Volume,
  { directories, vm, ...context }: VolumeContext & Pick<ClaimContext, 'isRetry' | 'attemptWithMoreRoom'>,
): Promise<VolumeSource> {
  const { name } = volume
  const directory = join(directories.files, name)
  if (volume.emptyDisk !== undefined) {
    const path = join(directory, 'disk.img')
    await attempt(name, () => makeSparse(path, volume.emptyDisk?.capacity ?? ''))
    return { kind: 'file', path, isReadOnly: false, isTemporary: true }
  }
  if (volume.cloudInit !== undefined) {
    const path = join(directory, 'cloud-init.iso')
    const files = seedFiles(volume.cloudInit, vm, join(directories.sources, name))
    await attempt(name, () => makeIso(path, seedLabel, files))
    return { kind: 'file', path, isReadOnly: true }
  }
  const files = volume.secret ?? volume.configMap
  if (files !== undefined) {
    const path = join(directory, 'files.iso')
    const label = files.label ?? name.slice(0, longestLabel)
    await attempt(name, async () => makeIso(path, label, await filesIn(join(directories.sources, name))))
    return { kind: 'file', path, isReadOnly: true }
  }
  if (volume.image !== undefined) {
    const image = join(directories.images, name)
    const found = await prepareImageDisk(name, volume.image, { image, changes: directory })
    return { kind: 'overlay', ...found, isReadOnly: false }
  }
  if (volume.persistentVolumeClaim !== undefined) {
    return prepareClaim(name, volume.persistentVolumeClaim, {
      directory,
      block: join(directories.blocks, name),
      image: join(directories.images, name),
      sourceDirectory: join(directories.sources, name),
      sourceBlock: join(directories.blocks, sourceDeviceName(name)),
      scratch: directories.scratch,
      writer: vm.uid,
      ...context,
    })
  }
  throw new Refused('VolumeUnavailable', `volume "${name}" is of a kind that this launcher does not support`)
}

async function makeSparse(path: string, capacity: string): Promise<void> {
  if ((await kindOf(path)) === 'file') return
  const bytes = quantityValue(capacity)
  if (bytes === undefined || bytes <= 0n) throw new Error(`${capacity} is not a valid capacity`)
  const file = await open(path, 'wx')
  try {
    await file.truncate(Number(bytes))
  } catch (error) {
    // The next attempt would take it for a disk.
    await rm(path)
    throw error
  } finally {
    await file.close()
  }
}

async function attempt(name: string, make: () => Promise<void>): Promise<void> {
  try {
    await make()
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error)
    throw new Refused('VolumeUnavailable', `volume "${name}": ${words}`, { cause: error })
  }
}

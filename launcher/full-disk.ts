import { statfs } from 'node:fs/promises'
import type { Domain } from '../api/domain/domain.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import type { DiskError } from './libvirt/domain.ts'

/** With less, a guest that is resumed is paused again at once: qcow2 allocates clusters of 64 KiB and their tables. */
const roomBytes = 4n * 1024n * 1024n

/** Why a guest is paused whose disks have these errors: each disk, with its volume, and when the guest continues. */
export function pausedMessage(errors: readonly DiskError[], { domain, volumes = [] }: VirtualMachineSpec): string {
  if (errors.length === 0) return 'the guest is paused by an I/O error of a disk'
  const named = errors.map(({ target, isFull }) => {
    const volume = domain.devices?.disks?.find((disk) => disk.target?.dev === target)?.source?.volume
    const isOwn = volumes.some(({ name }) => name === volume)
    return `disk ${target}${isOwn ? ` (volume "${volume}")` : ''} ${isFull ? 'has no space left' : 'has an I/O error'}`
  })
  const end = errors.every(({ isFull }) => isFull) ? '; it continues when there is space' : ''
  return `the guest is paused: ${named.join(', ')}${end}`
}

/** Whether each of the disks can be written again, as far as it can be known: a disk without a file may have space. */
export async function hasRoom(targets: readonly string[], { devices }: Domain): Promise<boolean> {
  const disks = (devices?.disks ?? []).filter(({ target }) => targets.includes(target?.dev ?? ''))
  const files = disks.flatMap(({ source }) => source?.file ?? [])
  const rooms = await Promise.all(files.map(roomAt))
  return rooms.every((room) => room >= roomBytes)
}

async function roomAt(file: string): Promise<bigint> {
  const { bavail, bsize } = await statfs(file, { bigint: true })
  return bavail * bsize
}

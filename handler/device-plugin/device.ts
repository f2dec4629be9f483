import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A resource that nodes offer to containers. */
export interface Offer {
  /** The part of `devices.virtset.io/NAME` after the slash. */
  readonly name: string
  readonly device: Device
  /** Nodes without the device offer the resource too, and its containers do not get the device. */
  readonly isOptional: boolean
}

/** A character device of the kernel's class `misc`. */
export interface Device {
  readonly name: string
  /** The usual path, in the container. */
  readonly path: string
}

/** The numbers that identify a device in the kernel. */
export interface DeviceNumbers {
  readonly major: number
  readonly minor: number
}

const kvm: Device = { name: 'kvm', path: '/dev/kvm' }

export const offers: readonly Offer[] = [
  { name: 'kvm', device: kvm, isOptional: false },
  { name: 'tun', device: { name: 'tun', path: '/dev/net/tun' }, isOptional: false },
  { name: 'vhost-net', device: { name: 'vhost-net', path: '/dev/vhost-net' }, isOptional: false },
  { name: 'vhost-vsock', device: { name: 'vhost-vsock', path: '/dev/vhost-vsock' }, isOptional: false },
  // For the pod that queries the node's libvirt, which must run on every node.
  { name: 'kvm-if-present', device: kvm, isOptional: true },
]

/**
 * The numbers of a device of this node; undefined if its driver is not loaded. Read from sysfs, which every container
 * sees, so that the host's /dev need not be mounted.
 *
 * @param sysfs usually /sys
 */
export async function readNumbers(sysfs: string, { name }: Device): Promise<DeviceNumbers | undefined> {
  const file = join(sysfs, 'class/misc', name, 'dev')
  try {
    return parseNumbers(await readFile(file, 'utf8'))
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw new Error(`could not read ${file}`, { cause: error })
  }
}

function parseNumbers(text: string): DeviceNumbers {
  const [, major, minor] = /^(\d+):(\d+)\n?$/.exec(text) ?? []
  if (major === undefined || minor === undefined) throw new Error(`not device numbers: ${JSON.stringify(text)}`)
  return { major: Number(major), minor: Number(minor) }
}

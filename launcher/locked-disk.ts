import type { VirtualMachineSpec } from '../api/virtual-machine.ts'

/** QEMU's words for a lock that another process holds. No error of libvirt has a code for it. */
const lock = /Failed to get (?:shared )?"[a-z ]+" lock/
/** What QEMU says next. A scan ends at the next bracket: the message can be long, and what is in it anything. */
const image = /image \[([^[\]]*)\]/
/** The name of the volume in the path of its disk: a file in its folder, or a block device. */
const place = /\/(?:volumes\/([^/]+)\/[^/]+|block\/([^/]+))$/

/** What to do about a disk that another process has locked; undefined for other messages. */
export function lockedDiskMessage(
  message: string,
  { volumes = [] }: Pick<VirtualMachineSpec, 'volumes'>,
): string | undefined {
  const found = lock.exec(message)
  if (found === null) return undefined
  const [words] = found
  const [, path = ''] = image.exec(message.slice(found.index)) ?? []
  const [, file, block] = place.exec(path) ?? []
  const volume = volumes.find(({ name }) => name === (file ?? block))
  const claim = volume?.persistentVolumeClaim?.claimName
  return inUse(volume && { name: volume.name, claim }, `QEMU reported: ${words}`)
}

/** The same for a block device that another process holds. */
export const heldDeviceMessage = (name: string, claim: string, words: string): string =>
  `${diskOf({ name, claim })} is in use on its node, by another VM or by the node itself (a mount, LVM, RAID or multipath); stop that VM, or let the node leave the device alone. If it is a VM and the guests coordinate writes, set shareable: {} on the disks of both. The kernel reported: ${words}`

const inUse = (volume: ClaimedVolume | undefined, reported: string): string =>
  `${diskOf(volume)} is in use by another VM or process; stop that one, or set shareable: {} on the disks of both if their guests coordinate writes. ${reported}`

interface ClaimedVolume {
  readonly name: string
  readonly claim: string | undefined
}

function diskOf(volume: ClaimedVolume | undefined): string {
  const of = volume?.claim === undefined ? '' : ` of the claim "${volume.claim}"`
  return volume === undefined ? 'a disk' : `volume "${volume.name}": the disk${of}`
}

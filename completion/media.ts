import type { Cause, Origin } from '../api/cause.ts'
import { canonicalSpelling } from '../api/domain/canonical.ts'
import type { Domain } from '../api/domain/domain.ts'
import { isRecord } from '../api/schema.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { forbidden } from './rules/finding.ts'
import { filesystemVolumes, volumesOfClaims } from './rules/filesystem-volume.ts'
import type { Finding } from './rules/rule.ts'
import { unknownVolume } from './rules/volume.ts'

export type Disk = NonNullable<NonNullable<Domain['devices']>['disks']>[number]

/** Whether the medium of a drive can be changed while the guest runs: a CD of a volume of the VM. */
export const isChangeable = ({ device, type, source }: Disk): boolean =>
  device === 'cdrom' && type === 'volume' && source?.pool === undefined

export const disksPath = 'spec.domain.devices.disks'

/** The path of the medium of a drive, by its index among the disks. */
export const mediumPath = (index: number): string => `${disksPath}[${index}].source.volume`

/** What is recorded about the media of a VM, by their paths. */
export interface MediaOrigins {
  /** The media that presets enforce, whether a volume or none, or the path of all disks for all media. */
  readonly enforced: ReadonlyMap<string, Origin>
  /** Whether the user wrote the value. */
  readonly isUsers: (path: string) => boolean
}

/** The preset that enforces the medium at a path. */
export const enforcerOf = ({ enforced }: Pick<MediaOrigins, 'enforced'>, path: string): Origin | undefined =>
  enforced.get(path) ?? (path.startsWith(`${disksPath}[`) ? enforced.get(disksPath) : undefined)

/**
 * The stored spec with the media that an updated spec has in its drives; everything else is as stored. A drive whose
 * `source` is absent is empty if its user stated the medium before, and otherwise unchanged: a manifest may omit what
 * presets added. An empty `source` empties it in any case. A medium that a preset enforces stays.
 */
export function withMediaOf(sent: unknown, stored: VirtualMachineSpec, origins: MediaOrigins): VirtualMachineSpec {
  const sentDisks = disksOf(sent)
  let isChanged = false
  const disks = disksOf(stored).map((disk, index) => {
    const other = sentDisks[index]
    const path = mediumPath(index)
    if (!isDisk(disk) || !isChangeable(disk) || !isRecord(other) || enforcerOf(origins, path)) return disk
    const { source: given } = other
    if (given === undefined && !origins.isUsers(path)) return disk
    const volume = isRecord(given) ? given['volume'] : undefined
    if (disk.source?.volume === volume || !(volume === undefined || typeof volume === 'string')) return disk
    isChanged = true
    const { volume: _, ...rest } = disk.source ?? {}
    return { ...disk, source: volume === undefined ? rest : { ...rest, volume } }
  })
  if (!isChanged) return stored
  const { domain } = stored
  return { ...stored, domain: { ...domain, devices: { ...domain.devices, disks: disks.filter(isDisk) } } }
}

/** The media that an update states otherwise although presets enforce them, and these presets. */
export function keptMedia(
  sent: unknown,
  stored: VirtualMachineSpec,
  origins: Pick<MediaOrigins, 'enforced'>,
): (readonly [path: string, preset: Origin])[] {
  if (origins.enforced.size === 0) return []
  const sentDisks = disksOf(sent)
  return disksOf(stored).flatMap((disk, index) => {
    const path = mediumPath(index)
    const other = sentDisks[index]
    const preset = enforcerOf(origins, path)
    if (preset === undefined || !isDisk(disk) || !isChangeable(disk) || !isRecord(other)) return []
    const { source } = other
    return isRecord(source) && source['volume'] !== disk.source?.volume ? [[path, preset] as const] : []
  })
}

/** A VM that was stored without the webhooks can have anything in the place of its disks. */
export const isDisk = (value: unknown): value is Disk =>
  isRecord(value) && (value['source'] === undefined || isRecord(value['source']))

export const disksOf = (spec: unknown): readonly unknown[] => {
  const domain = isRecord(spec) ? spec['domain'] : undefined
  const devices = isRecord(domain) ? domain['devices'] : undefined
  const disks = isRecord(devices) ? devices['disks'] : undefined
  return Array.isArray(disks) ? disks : []
}

/** Causes for media that the drives of a VM cannot have, among those that differ from the stored spec. */
export function mediaCauses(spec: VirtualMachineSpec, stored: VirtualMachineSpec): Cause[] {
  const { volumes = [], deviceStateVolume } = spec
  const shared = new Set(filesystemVolumes(canonicalSpelling(spec.domain)).map(({ name }) => name))
  const ofClaims = volumesOfClaims(volumes)
  const before = stored.domain.devices?.disks ?? []
  const findings = (spec.domain.devices?.disks ?? []).flatMap(({ source, driver }, index): Finding[] => {
    const name = source?.volume
    if (name === undefined || name === before[index]?.source?.volume) return []
    const field = mediumPath(index)
    const volume = volumes.find((one) => one.name === name)
    if (volume === undefined) {
      return [
        unknownVolume(
          field,
          name,
          volumes.map((one) => one.name),
          index,
        ),
      ]
    }
    const same = ofClaims.get(volume.persistentVolumeClaim?.claimName) ?? [name]
    if (same.some((one) => shared.has(one)))
      return [forbidden(field, name, 'is shared with the guest as a file system')]
    if (deviceStateVolume !== undefined && same.includes(deviceStateVolume))
      return [forbidden(field, name, 'contains the state of devices')]
    const format = volume.image === undefined ? 'raw' : 'qcow2'
    const ofDrive = driver?.type ?? 'raw'
    if (format === ofDrive) return []
    const kind = volume.image === undefined ? 'not of kind image' : 'of kind image'
    return [
      forbidden(
        field,
        name,
        `is ${kind}, and so ${format}; the drive has driver.type ${ofDrive}, which cannot change while the VM exists`,
      ),
    ]
  })
  return findings.map((finding) => ({ ...finding, rule: 'medium' }))
}

import { list, type DeviceOf } from './device.ts'
import { duplicate, forbidEach, invalid, notFound } from './finding.ts'
import { nearest } from '../../api/nearest.ts'
import { imageVolumesOf } from '../../api/volume.ts'
import { nameSome } from '../../presets/abridge.ts'
import type { Finding, Rule, Subject } from './rule.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'

/** Disks that use a volume of the VM, not one of a libvirt storage pool. */
export const volumeDisks = ({ domain }: Pick<Subject, 'domain'>) =>
  list(domain, 'disks')
    .map((disk, index) => ({ disk, field: `spec.domain.devices.disks[${index}].source.volume` }))
    .filter(
      ({ disk: { type, source } }) => type === 'volume' && source?.pool === undefined && source?.volume !== undefined,
    )

const emptyDisk = (name: string) => ({ name, emptyDisk: { capacity: '1Gi' } })

/** Comparing the names of 256 disks with those of 256 volumes would take seconds. */
const mostCompared = 16

/** @param position among the causes: later ones do not suggest a name */
export function unknownVolume(field: string, name: string, names: readonly string[], position: number): Finding {
  const message =
    names.length === 0 ? 'spec.volumes is empty' : `no volume has this name; spec.volumes has ${nameSome(names)}`
  const near = position < mostCompared ? nearest(name, names.slice(0, mostCompared)) : undefined
  return notFound(field, name, message, near === undefined ? undefined : `did you mean ${JSON.stringify(near)}?`)
}

const volumeFound: Rule = {
  id: 'volume-found',
  description: 'A disk must name an existing volume of the VM.',
  about: ['volume'],
  *check(subject) {
    const names = (subject.spec.volumes ?? []).map(({ name }) => name)
    const known = new Set(names)
    const unknown = volumeDisks(subject).filter(({ disk }) => !known.has(disk.source?.volume ?? ''))
    for (const [index, { disk, field }] of unknown.entries()) {
      yield unknownVolume(field, disk.source?.volume ?? '', names, index)
    }
  },
  example: {
    breaks: {
      domain: { devices: { disks: [{ type: 'volume', source: { volume: 'rot' }, target: { dev: 'vda' } }] } },
      volumes: [emptyDisk('root')],
    },
    holds: {
      domain: { devices: { disks: [{ type: 'volume', source: { volume: 'root' }, target: { dev: 'vda' } }] } },
      volumes: [emptyDisk('root')],
    },
  },
}

const volumeOnce: Rule = {
  id: 'volume-once',
  description: 'At most one disk can write to a volume.',
  about: ['volume'],
  *check(subject) {
    const seen = new Map<string, string>()
    for (const { disk, field } of volumeDisks(subject)) {
      if (disk.readonly !== undefined || disk.shareable !== undefined) continue
      const name = disk.source?.volume ?? ''
      const other = seen.get(name)
      if (other === undefined) seen.set(name, field)
      else yield duplicate(field, name, `${other} already writes to this volume`)
    }
  },
  example: {
    breaks: {
      domain: {
        devices: {
          disks: ['vda', 'vdb'].map((dev) => ({
            type: 'volume' as const,
            source: { volume: 'root' },
            target: { dev },
          })),
        },
      },
      volumes: [emptyDisk('root')],
    },
    holds: {
      domain: { devices: { disks: [{ type: 'volume', source: { volume: 'root' }, target: { dev: 'vda' } }] } },
      volumes: [emptyDisk('root')],
    },
  },
}

/** Disks that use a volume whose disk is in a container image; `at` is the path of the disk. */
export const imageDisks = (subject: Subject) => {
  const names = imageVolumesOf(subject.spec.volumes)
  return volumeDisks(subject)
    .filter(({ disk: { source } }) => names.has(source?.volume ?? ''))
    .map(({ disk, field }) => ({ disk, at: field.slice(0, -'.source.volume'.length) }))
}

const fromImage = (more: DeviceOf<'disks'> = {}): VirtualMachineSpec => ({
  domain: { devices: { disks: [{ type: 'volume', source: { volume: 'root' }, target: { dev: 'vda' }, ...more }] } },
  volumes: [{ name: 'root', image: { reference: 'quay.io/containerdisks/debian:13' } }],
})

const imageFormat: Rule = {
  id: 'volume-image-format',
  description:
    'The format of a disk from a container image must be qcow2, in which the changes of the guest are stored; the format of the image is detected.',
  about: ['volume'],
  *check(subject) {
    for (const { disk, at } of imageDisks(subject)) {
      const type = disk.driver?.type
      if (type === undefined || type === 'qcow2') continue
      const message = 'must be qcow2, in which the changes of the guest are stored; the format of the image is detected'
      yield invalid(`${at}.driver.type`, type, message)
    }
  },
  example: {
    breaks: fromImage({ driver: { type: 'raw' } }),
    holds: fromImage(),
  },
}

/** What the launcher itself sets, or what does not apply to the file that it creates. */
const notOfImages = ['backingStore', 'encryption', 'source.encryption', 'source.slices', 'source.dataStore']

const imageDisk: Rule = {
  id: 'volume-image-disk',
  description:
    'A disk from a container image cannot have a backing store, data store, slices or encryption of its own.',
  about: ['volume'],
  *check(subject) {
    for (const { disk, at } of imageDisks(subject)) {
      yield* forbidEach(disk, at, notOfImages, 'is not supported for a disk from a container image')
    }
  },
  example: {
    breaks: fromImage({ backingStore: {} }),
    holds: fromImage(),
  },
}

export const volumeRules: readonly Rule[] = [volumeFound, volumeOnce, imageFormat, imageDisk]

/** Volumes that neither a disk, a file system nor the state of devices uses. */
export const unusedVolumes = (subject: Subject): readonly string[] => {
  const used = new Set(volumeDisks(subject).map(({ disk }) => disk.source?.volume))
  for (const { type, source } of list(subject.domain, 'filesystems')) if (type === 'volume') used.add(source?.volume)
  used.add(subject.spec.deviceStateVolume)
  return (subject.spec.volumes ?? []).map(({ name }) => name).filter((name) => !used.has(name))
}

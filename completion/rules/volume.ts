import { list } from './device.ts'
import { duplicate, notFound } from './finding.ts'
import { nearest } from '../../api/nearest.ts'
import type { Rule, Subject } from './rule.ts'

/** Disks that take a volume of the VM, and not of a storage pool of libvirt's. */
const takers = ({ domain }: Subject) =>
  list(domain, 'disks')
    .map((disk, index) => ({ disk, field: `spec.domain.devices.disks[${index}].source.volume` }))
    .filter(
      ({ disk: { type, source } }) => type === 'volume' && source?.pool === undefined && source?.volume !== undefined,
    )

const emptyDisk = (name: string) => ({ name, emptyDisk: { capacity: '1Gi' } })

const volumeFound: Rule = {
  id: 'volume-found',
  description: 'The volume that a disk takes is one of the VM.',
  about: ['volume'],
  *check(subject) {
    const names = (subject.spec.volumes ?? []).map(({ name }) => name)
    for (const { disk, field } of takers(subject)) {
      const name = disk.source?.volume ?? ''
      if (names.includes(name)) continue
      const near = nearest(name, names)
      const message =
        names.length === 0 ? 'there are no spec.volumes' : `there is no such volume; there are: ${names.join(', ')}`
      yield notFound(field, name, message, near === undefined ? undefined : `did you mean ${JSON.stringify(near)}?`)
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
  description: 'Two disks do not write to the same volume.',
  about: ['volume'],
  *check(subject) {
    const seen = new Map<string, string>()
    for (const { disk, field } of takers(subject)) {
      if (disk.readonly !== undefined || disk.shareable !== undefined) continue
      const name = disk.source?.volume ?? ''
      const other = seen.get(name)
      if (other === undefined) seen.set(name, field)
      else yield duplicate(field, name, `is taken by ${other} as well, and both would write to it`)
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

export const volumeRules: readonly Rule[] = [volumeFound, volumeOnce]

/** Volumes that no disk takes. */
export const unusedVolumes = (subject: Subject): readonly string[] => {
  const taken = new Set(takers(subject).map(({ disk }) => disk.source?.volume))
  return (subject.spec.volumes ?? []).map(({ name }) => name).filter((name) => !taken.has(name))
}

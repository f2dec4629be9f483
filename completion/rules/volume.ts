import { list } from './device.ts'
import { duplicate, notFound } from './finding.ts'
import { nearest } from '../../api/nearest.ts'
import type { Rule, Subject } from './rule.ts'

/** Disks that use a volume of the VM, not one of a libvirt storage pool. */
const volumeDisks = ({ domain }: Subject) =>
  list(domain, 'disks')
    .map((disk, index) => ({ disk, field: `spec.domain.devices.disks[${index}].source.volume` }))
    .filter(
      ({ disk: { type, source } }) => type === 'volume' && source?.pool === undefined && source?.volume !== undefined,
    )

const emptyDisk = (name: string) => ({ name, emptyDisk: { capacity: '1Gi' } })

const volumeFound: Rule = {
  id: 'volume-found',
  description: 'A disk must name an existing volume of the VM.',
  about: ['volume'],
  *check(subject) {
    const names = (subject.spec.volumes ?? []).map(({ name }) => name)
    for (const { disk, field } of volumeDisks(subject)) {
      const name = disk.source?.volume ?? ''
      if (names.includes(name)) continue
      const near = nearest(name, names)
      const message =
        names.length === 0 ? 'spec.volumes is empty' : `no volume has this name; spec.volumes has ${names.join(', ')}`
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

export const volumeRules: readonly Rule[] = [volumeFound, volumeOnce]

/** Volumes that no disk uses. */
export const unusedVolumes = (subject: Subject): readonly string[] => {
  const used = new Set(volumeDisks(subject).map(({ disk }) => disk.source?.volume))
  return (subject.spec.volumes ?? []).map(({ name }) => name).filter((name) => !used.has(name))
}

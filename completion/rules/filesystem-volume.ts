import type { Domain } from '../../api/domain/domain.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import type { Volume } from '../../api/volume.ts'
import { list } from './device.ts'
import { duplicate, forbidden, invalid } from './finding.ts'
import type { Finding, Rule } from './rule.ts'
import { unknownVolume, volumeDisks } from './volume.ts'

/** File systems that share a volume of the VM. */
export const filesystemVolumes = (domain: Domain) =>
  list(domain, 'filesystems').flatMap(({ type, source }, index) => {
    const name = type === 'volume' ? source?.volume : undefined
    return name === undefined ? [] : [{ name, field: `spec.domain.devices.filesystems[${index}].source.volume` }]
  })

/** The names of the volumes that are one claim, by the name of the claim. */
export const volumesOfClaims = (volumes: readonly Volume[]): ReadonlyMap<string | undefined, readonly string[]> =>
  new Map(
    [...Map.groupBy(volumes, ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName)]
      .filter(([claim]) => claim !== undefined)
      .map(([claim, same]) => [claim, same.map(({ name }) => name)]),
  )

const sharing = (more: Partial<VirtualMachineSpec> = {}): VirtualMachineSpec => ({
  domain: {
    memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } },
    devices: {
      filesystems: [
        { type: 'volume', driver: { type: 'virtiofs' }, source: { volume: 'data' }, target: { dir: 'data' } },
      ],
    },
  },
  volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
  ...more,
})

/** Whether the claim is a file system is known when the pod is created. */
export const filesystemVolume: Rule = {
  id: 'filesystem-volume',
  description:
    'A file system must share a volume of kind persistentVolumeClaim that is not filled and whose claim nothing else of the VM uses.',
  about: ['filesystems'],
  *check(subject): Iterable<Finding> {
    const { volumes = [], deviceStateVolume } = subject.spec
    const shared = filesystemVolumes(subject.domain)
    if (shared.length === 0) return
    const indexes = new Map(volumes.map(({ name }, index) => [name, index]))
    const ofClaims = volumesOfClaims(volumes)
    const diskOf = new Map(volumeDisks(subject).map(({ disk, field }) => [disk.source?.volume, field]))
    for (const [position, { name, field }] of shared.entries()) {
      const index = indexes.get(name)
      const volume = index === undefined ? undefined : volumes[index]
      const claim = volume?.persistentVolumeClaim
      if (volume === undefined) {
        yield unknownVolume(field, name, [...indexes.keys()], position)
      } else if (claim === undefined) {
        yield invalid(field, name, 'must name a volume of kind persistentVolumeClaim, whose files are shared')
      } else {
        const same = ofClaims.get(claim.claimName) ?? []
        const other = same.map((one) => diskOf.get(one)).find((at) => at !== undefined)
        if (other !== undefined)
          yield duplicate(field, name, `${other} uses this claim: a guest could replace its own disk`)
        if (deviceStateVolume !== undefined && same.includes(deviceStateVolume))
          yield duplicate(field, name, 'spec.deviceStateVolume uses this claim: a guest could replace its own firmware')
        const { empty: _, ...filling } = claim.source ?? {}
        for (const kind of Object.keys(filling)) {
          const at = `spec.volumes[${index}].persistentVolumeClaim.source.${kind}`
          yield forbidden(at, undefined, `must not be set: ${field} shares the files of the claim, which has no disk`)
        }
      }
    }
  },
  example: {
    breaks: sharing({ volumes: [{ name: 'data', emptyDisk: { capacity: '1Gi' } }] }),
    holds: sharing(),
  },
}

import type { VirtualMachine } from '../api/virtual-machine.ts'
import { unlessNotFound } from '../runtime/api-error.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { errorLine } from './error-line.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { orRefusal } from './refusal.ts'
import type { Cluster, World } from './world.ts'

export interface MediaFlags {
  readonly namespace?: string
  readonly insert?: string
  readonly eject?: true
  readonly dryRun?: true
}

/** Changes the medium in a drive of a VM: its `source.volume`, which is the part of a spec that can change. */
export async function changeMedium(
  [name, dev]: readonly [vm: string, drive: string],
  flags: MediaFlags,
  cluster: Cluster,
  world: Pick<World, 'out' | 'err'>,
): Promise<ExitCode> {
  const { insert: volume } = flags
  if ((volume === undefined) !== (flags.eject === true)) throw new Usage('one of --insert VOLUME and --eject is needed')
  const namespace = flags.namespace ?? cluster.namespace ?? 'default'
  const change = async () => {
    const vm = await unlessNotFound(cluster.kube.get(virtualMachines, { namespace, name }))
    if (vm === undefined) throw new Usage(`no VM ${name} in ${namespace}`)
    const index = driveOf(vm, name, dev)
    const at = `/spec/domain/devices/disks/${index}`
    const body = [
      // Not of another VM of this name, which was created meanwhile.
      { op: 'test', path: '/metadata/uid', value: vm.metadata.uid },
      { op: 'test', path: `${at}/target/dev`, value: dev },
      // An empty source, unlike an absent one, also replaces a medium that a preset has set.
      { op: 'add', path: `${at}/source`, value: volume === undefined ? {} : { volume } },
    ]
    const options = flags.dryRun === true ? { dryRun: true } : {}
    const changed = await cluster.kube.patch(virtualMachines, { namespace, name }, { type: 'json', body }, options)
    const medium = changed?.spec.domain.devices?.disks?.[index]?.source?.volume
    if (medium !== volume) {
      world.err(errorLine(`${dev} of ${name} still has ${medium ?? 'no medium'}: a preset of strength Enforce sets it`))
      return exitCodes.refused
    }
    const what = volume === undefined ? `${dev} ejected` : `${volume} inserted into ${dev}`
    world.out(`virtualmachine.virtset.io/${name}: ${what}${flags.dryRun === true ? ' (dry run)' : ''}\n`)
    return exitCodes.fine
  }
  return orRefusal(change, cluster, world)
}

function driveOf({ spec }: VirtualMachine, name: string, dev: string): number {
  const disks = spec.domain.devices?.disks ?? []
  const drives = disks.flatMap(({ device, target }) => (device === 'cdrom' ? (target?.dev ?? []) : []))
  const index = disks.findIndex(({ device, target }) => device === 'cdrom' && target?.dev === dev)
  if (index !== -1) return index
  throw new Usage(
    drives.length === 0
      ? `${name} has no drive: a disk with device: cdrom`
      : `${name} has no drive ${dev}, but ${drives.join(', ')}`,
  )
}

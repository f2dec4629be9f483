import type { AttachedVolume } from '../api/attached-volume.ts'
import { cutName } from '../api/label.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { isConflict, isNotFound, unlessNotFound } from '../runtime/api-error.ts'
import { unchanged, virtualMachines, type Persisted } from '../runtime/resource.ts'
import { clusterLine, warningLine } from './error-line.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { orRefusal } from './refusal.ts'
import type { Cluster, World } from './world.ts'

interface CommonFlags {
  readonly namespace?: string
  readonly dryRun?: true
}

export interface AttachFlags extends CommonFlags {
  readonly as?: string
  readonly bus?: string
  readonly readOnly?: true
  readonly serial?: string
}

type Output = Pick<World, 'out' | 'err'>
type Vm = Persisted<VirtualMachine>

/** The status of a VM can change between a read and a write of its spec. */
const attempts = 5
/** As the field allows. */
const longestName = 63

/** Adds a claim to `spec.attachedVolumes` of a VM. */
export async function attach(
  [name, claimName]: readonly [vm: string, claim: string],
  flags: AttachFlags,
  cluster: Cluster,
  world: Output,
): Promise<ExitCode> {
  const { as: dev, bus, readOnly, serial } = flags
  const item: AttachedVolume = {
    name: cutName(claimName.replaceAll('.', '-'), longestName),
    persistentVolumeClaim: { claimName, ...(readOnly === true ? { readOnly } : {}) },
    ...(dev === undefined && bus === undefined
      ? {}
      : { target: { ...(dev === undefined ? {} : { dev }), ...(bus === undefined ? {} : { bus }) } }),
    ...(serial === undefined ? {} : { serial }),
  }
  const code = await change(name, flags, cluster, world, {
    patch: ({ spec: { attachedVolumes } }) =>
      attachedVolumes === undefined
        ? { op: 'add', path: '/spec/attachedVolumes', value: [item] }
        : { op: 'add', path: '/spec/attachedVolumes/-', value: item },
    outcome: ({ spec: { attachedVolumes = [] } }) => {
      const stored = attachedVolumes.find((one) => one.name === item.name)
      return `the claim ${claimName} is to be attached as ${stored?.target?.dev ?? 'a disk'}`
    },
  })
  const namespace = flags.namespace ?? cluster.namespace ?? 'default'
  if (code === exitCodes.fine && (await isUnknown(cluster, namespace, claimName)))
    world.err(warningLine(`there is no claim ${claimName} in ${namespace} yet; the VM waits for it`))
  return code
}

/** A user who may not read claims gets no warning. */
async function isUnknown({ kube }: Cluster, namespace: string, claimName: string): Promise<boolean> {
  try {
    await kube.request('GET', `/api/v1/namespaces/${namespace}/persistentvolumeclaims/${claimName}`)
    return false
  } catch (error) {
    return isNotFound(error)
  }
}

/** Removes a claim from `spec.attachedVolumes` of a VM. */
export async function detach(
  [name, claimName]: readonly [vm: string, claim: string],
  flags: CommonFlags,
  cluster: Cluster,
  world: Output,
): Promise<ExitCode> {
  return change(name, flags, cluster, world, {
    patch: (vm) => ({ op: 'remove', path: `/spec/attachedVolumes/${indexOf(vm, claimName)}` }),
    outcome: () => `the claim ${claimName} is to be detached`,
  })
}

function indexOf({ metadata, spec: { attachedVolumes = [] } }: Vm, claimName: string): number {
  const claims = attachedVolumes.map(({ persistentVolumeClaim }) => persistentVolumeClaim.claimName)
  const index = claims.indexOf(claimName)
  if (index !== -1) return index
  throw new Usage(
    claims.length === 0
      ? `${metadata.name} has no attached volumes`
      : `${metadata.name} has no attached claim ${claimName}, but ${claims.join(', ')}`,
  )
}

interface Change {
  readonly patch: (vm: Vm) => object
  readonly outcome: (changed: VirtualMachine) => string
}

async function change(
  name: string,
  { namespace: given, dryRun: isDryRun = false }: { readonly namespace?: string; readonly dryRun?: boolean },
  cluster: Cluster,
  world: Output,
  { patch, outcome }: Change,
): Promise<ExitCode> {
  const namespace = given ?? cluster.namespace ?? 'default'
  const once = async (): Promise<VirtualMachine> => {
    const vm = await unlessNotFound(cluster.kube.get(virtualMachines, { namespace, name }))
    if (vm === undefined) throw new Usage(`no VM ${name} in ${namespace}`)
    const body = [...unchanged(vm), patch(vm)]
    const options = isDryRun ? { dryRun: true } : {}
    return (await cluster.kube.patch(virtualMachines, { namespace, name }, { type: 'json', body }, options)) ?? vm
  }
  const perform = async () => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const text = outcome(await once())
        world.out(clusterLine(`virtualmachine.virtset.io/${name}: ${text}${isDryRun ? ' (dry run)' : ''}`))
        return exitCodes.fine
      } catch (error) {
        if (!isConflict(error) || attempt === attempts) throw error
      }
    }
  }
  return orRefusal(perform, cluster, world)
}

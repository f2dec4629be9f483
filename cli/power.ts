import type { VirtualMachineConfig } from '../api/config.ts'
import { isRecord } from '../api/schema.ts'
import { isFinished, type VirtualMachine } from '../api/virtual-machine.ts'
import type { Persisted } from '../runtime/resource.ts'
import { exitCodes, Usage, type ExitCode } from './failure.ts'
import { follow, type Progress } from './follow.ts'
import { orRefusal } from './refusal.ts'
import type { Cluster, World } from './world.ts'

export type Verb = 'start' | 'stop' | 'restart'

export interface PowerFlags {
  readonly namespace?: string
  readonly wait?: true
  /** Seconds. */
  readonly timeout: number
  readonly gracePeriod?: number
  readonly dryRun?: true
}

/**
 * Requests the subresource of the aggregated API, and waits with `--wait`. Refusals are printed in full, as by kubectl.
 */
export async function power(
  verb: Verb,
  name: string,
  flags: PowerFlags,
  cluster: Cluster,
  world: Pick<World, 'out' | 'err' | 'now'>,
): Promise<ExitCode> {
  const namespace = flags.namespace ?? cluster.namespace ?? 'default'
  const request = async () => {
    const path = pathOf(verb, namespace, name, flags)
    const uid = uidOf(verb, await cluster.kube.request('POST', path, bodyOf(flags)))
    if (uid === undefined)
      throw new Usage(`POST ${path}: the response is not one of virtset, so nothing may be ${past[verb]}`)
    const dryRun = flags.dryRun === true ? ' (dry run)' : ''
    world.out(`virtualmachineconfig.virtset.io/${name} ${past[verb]}${dryRun}\n`)
    if (flags.wait !== true || flags.dryRun === true) return exitCodes.fine
    const { virtualMachineConfigs, virtualMachines } = await import('../runtime/resource.ts')
    const { unlessNotFound } = await import('../runtime/api-error.ts')
    const ref = { namespace, name }
    const read = async () => {
      // First: the request of a cancelled restart is removed from its status after the deletion of the VM.
      const config = await cluster.kube.get(virtualMachineConfigs, ref)
      const vm = verb === 'start' ? undefined : await unlessNotFound(cluster.kube.get(virtualMachines, ref))
      return progressOf(verb, uid, config, vm)
    }
    return (await follow(name, read, flags.timeout, world)) ? exitCodes.fine : exitCodes.refused
  }
  return orRefusal(request, cluster, world)
}

const past: { readonly [V in Verb]: string } = { start: 'started', stop: 'stopping', restart: 'restarting' }

function pathOf(verb: Verb, namespace: string, name: string, { dryRun }: PowerFlags): string {
  const config = `namespaces/${encodeURIComponent(namespace)}/virtualmachineconfigs/${encodeURIComponent(name)}`
  return `/apis/subresources.virtset.io/v1alpha1/${config}/${verb}${dryRun === true ? '?dryRun=All' : ''}`
}

const bodyOf = ({ gracePeriod }: PowerFlags): object =>
  gracePeriod === undefined ? {} : { gracePeriodSeconds: gracePeriod }

/** `start` responds with the VM, the others with a Status that has its uid. Undefined for anything else. */
function uidOf(verb: Verb, response: unknown): string | undefined {
  if (!isRecord(response)) return undefined
  const isAnswer =
    verb === 'start'
      ? response['kind'] === 'VirtualMachine'
      : response['kind'] === 'Status' && response['status'] === 'Success'
  const owner = response[verb === 'start' ? 'metadata' : 'details']
  const uid = isRecord(owner) ? owner['uid'] : undefined
  return isAnswer && typeof uid === 'string' && uid !== '' ? uid : undefined
}

/**
 * The status of the config can be older than its VM.
 * @param uid the UID of the started VM, or of the VM to stop
 * @param vm what has the name of the config now, unless it is to start
 */
export function progressOf(
  verb: Verb,
  uid: string,
  { status = {} }: Pick<Persisted<VirtualMachineConfig>, 'status'>,
  vm?: Pick<Persisted<VirtualMachine>, 'metadata' | 'status'>,
): Progress {
  const { phase = 'Stopped', instance, restart, conditions = [] } = status
  const why = conditions.find(({ type }) => type === 'Ready')?.message ?? ''
  const words = [phase, ...(why === '' ? [] : [`(${why})`])].join(' ')
  if (verb === 'stop') {
    // A cancelled restart may have been creating another VM, which is deleted then. A finished VM can remain.
    const isGone = vm?.metadata.deletionTimestamp === undefined && (vm?.metadata.uid !== uid || isFinished(vm))
    if (restart === undefined && isGone) return { state: 'done', words: 'Stopped' }
    return { state: 'in progress', words: phase === 'Stopped' ? 'Stopping' : words }
  }
  const isOld = [instance?.uid, vm?.metadata.uid].includes(uid)
  if (verb === 'restart' && (restart !== undefined || isOld)) {
    return { state: phase === 'Failed' && !isOld ? 'failed' : 'in progress', words }
  }
  const current = verb === 'start' ? uid : vm?.metadata.uid
  // The controller might not have observed the new VM yet.
  if (instance === undefined || instance.uid !== current) return { state: 'in progress', words: 'Starting' }
  if (phase === 'Running') return { state: 'done', words }
  return { state: phase === 'Failed' || phase === 'Stopped' ? 'failed' : 'in progress', words }
}

import type { VirtualMachineConfig } from '../api/config.ts'
import { isRecord } from '../api/schema.ts'
import type { Persisted } from '../runtime/resource.ts'
import { exitCodes, type ExitCode } from './failure.ts'
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
    const response = await cluster.kube.request('POST', pathOf(verb, namespace, name, flags), bodyOf(flags))
    const dryRun = flags.dryRun === true ? ' (dry run)' : ''
    world.out(`virtualmachineconfig.virtset.io/${name} ${past[verb]}${dryRun}\n`)
    if (flags.wait !== true || flags.dryRun === true) return exitCodes.fine
    const uid = uidOf(response)
    const { virtualMachineConfigs } = await import('../runtime/resource.ts')
    const read = async () => progressOf(verb, uid, await cluster.kube.get(virtualMachineConfigs, { namespace, name }))
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

/** `start` responds with the VM, the others with a Status that has its uid. */
function uidOf(response: unknown): string {
  const [metadata, details] = isRecord(response) ? [response['metadata'], response['details']] : []
  const uid = (isRecord(metadata) && metadata['uid']) || (isRecord(details) && details['uid'])
  return typeof uid === 'string' ? uid : ''
}

/** @param uid the UID of the started VM, or of the VM to stop */
export function progressOf(
  verb: Verb,
  uid: string,
  { status = {} }: Pick<Persisted<VirtualMachineConfig>, 'status'>,
): Progress {
  const { phase = 'Stopped', instance, restart, conditions = [] } = status
  const why = conditions.find(({ type }) => type === 'Ready')?.message ?? ''
  const words = [phase, ...(why === '' ? [] : [`(${why})`])].join(' ')
  const isOld = instance?.uid === uid
  // A cancelled restart may have been creating another VM.
  if (verb === 'stop') return { state: restart === undefined && !isOld ? 'done' : 'in progress', words }
  if (verb === 'restart' && (restart !== undefined || isOld)) {
    return { state: phase === 'Failed' && !isOld ? 'failed' : 'in progress', words }
  }
  // The controller might not have observed the new VM yet.
  if (instance === undefined || (verb === 'start' && !isOld)) return { state: 'in progress', words: 'Starting' }
  if (phase === 'Running') return { state: 'done', words }
  return { state: phase === 'Failed' || phase === 'Stopped' ? 'failed' : 'in progress', words }
}

import type { VirtualMachineConfig } from '../api/config.ts'
import { isRecord } from '../api/schema.ts'
import type { ApiError } from '../runtime/api-error.ts'
import type { Persisted } from '../runtime/resource.ts'
import { exitCodes, type ExitCode } from './failure.ts'
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

/** Asks the aggregated API, and waits if that is wanted. What it refuses is printed as kubectl would, all of it. */
export async function power(
  verb: Verb,
  name: string,
  flags: PowerFlags,
  cluster: Cluster,
  world: Pick<World, 'out' | 'err' | 'now'>,
): Promise<ExitCode> {
  const namespace = flags.namespace ?? cluster.namespace ?? 'default'
  const [{ ApiError, ApiUnreachable }, { clusterFailure }] = await Promise.all([
    import('../runtime/api-error.ts'),
    import('./cluster.ts'),
  ])
  try {
    const answer = await cluster.kube.request('POST', pathOf(verb, namespace, name, flags), bodyOf(flags))
    const dryRun = flags.dryRun === true ? ' (dry run)' : ''
    world.out(`virtualmachineconfig.virtset.io/${name} ${past[verb]}${dryRun}\n`)
    if (flags.wait !== true || flags.dryRun === true) return exitCodes.fine
    return await follow(verb, { namespace, name }, uidOf(answer), flags.timeout, cluster, world)
  } catch (error) {
    if (error instanceof ApiUnreachable) throw clusterFailure(error, cluster, '')
    if (!(error instanceof ApiError)) throw error
    world.err(refusal(error))
    return exitCodes.refused
  }
}

const past: { readonly [V in Verb]: string } = { start: 'started', stop: 'stopping', restart: 'restarting' }

function pathOf(verb: Verb, namespace: string, name: string, { dryRun }: PowerFlags): string {
  const config = `namespaces/${encodeURIComponent(namespace)}/virtualmachineconfigs/${encodeURIComponent(name)}`
  return `/apis/subresources.virtset.io/v1alpha1/${config}/${verb}${dryRun === true ? '?dryRun=All' : ''}`
}

const bodyOf = ({ gracePeriod }: PowerFlags): object =>
  gracePeriod === undefined ? {} : { gracePeriodSeconds: gracePeriod }

/** `start` answers the VM, the others a Status that names it. */
function uidOf(answer: unknown): string {
  const [metadata, details] = isRecord(answer) ? [answer['metadata'], answer['details']] : []
  const uid = (isRecord(metadata) && metadata['uid']) || (isRecord(details) && details['uid'])
  return typeof uid === 'string' ? uid : ''
}

/** The same form as kubectl's own. */
function refusal({ status }: ApiError): string {
  const causes = status.details?.causes ?? []
  const head = `Error from server (${status.reason}): ${status.message}\n`
  return causes.length < 2 ? head : `${head}${causes.map((cause) => `* ${cause.field}: ${cause.message}\n`).join('')}`
}

const pollMs = 300

/** Tells each phase once, on standard error, until it is done or has failed. */
async function follow(
  verb: Verb,
  ref: { readonly namespace: string; readonly name: string },
  uid: string,
  timeoutSeconds: number,
  { kube }: Cluster,
  world: Pick<World, 'err' | 'now'>,
): Promise<ExitCode> {
  const [{ sleep, systemClock }, { virtualMachineConfigs }] = await Promise.all([
    import('../runtime/clock.ts'),
    import('../runtime/resource.ts'),
  ])
  const untilMs = world.now() + timeoutSeconds * 1000
  for (let told = ''; world.now() < untilMs; await sleep(systemClock, pollMs)) {
    const { state, words } = progressOf(verb, uid, await kube.get(virtualMachineConfigs, ref))
    if (words !== told) world.err(`${ref.name}: ${words}\n`)
    told = words
    if (state === 'done') return exitCodes.fine
    if (state === 'failed') return exitCodes.refused
  }
  world.err(`error: not done within ${timeoutSeconds} s; it goes on without you\n`)
  return exitCodes.refused
}

/** How far it is. `uid` is that of the VM that was started, or of the one that is to go. */
export function progressOf(
  verb: Verb,
  uid: string,
  { status = {} }: Pick<Persisted<VirtualMachineConfig>, 'status'>,
): { readonly state: 'done' | 'failed' | 'under way'; readonly words: string } {
  const { phase = 'Stopped', instance, restart, conditions = [] } = status
  const why = conditions.find(({ type }) => type === 'Ready')?.message ?? ''
  const words = [phase, ...(why === '' ? [] : [`(${why})`])].join(' ')
  const isOld = instance?.uid === uid
  // A restart that was called off may have been making another one.
  if (verb === 'stop') return { state: restart === undefined && !isOld ? 'done' : 'under way', words }
  if (verb === 'restart' && (restart !== undefined || isOld)) {
    return { state: phase === 'Failed' && !isOld ? 'failed' : 'under way', words }
  }
  // The controller may not have seen yet what was started.
  if (instance === undefined || (verb === 'start' && !isOld)) return { state: 'under way', words: 'Starting' }
  if (phase === 'Running') return { state: 'done', words }
  return { state: phase === 'Failed' || phase === 'Stopped' ? 'failed' : 'under way', words }
}

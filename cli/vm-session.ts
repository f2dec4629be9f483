import { ApiError, ApiUnreachable, isForbidden, isNotFound, unlessNotFound } from '../runtime/api-error.ts'
import { virtualMachineConfigs, virtualMachines } from '../runtime/resource.ts'
import { clusterFailure } from './cluster.ts'
import { errorLine } from './error-line.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { refusalLine } from './refusal.ts'
import type { Cluster, World } from './world.ts'

/** A VM that a command names; its config, if it has one, has the same name. */
export interface VmRef {
  readonly namespace: string
  readonly name: string
}

export const vmRef = (name: string, flags: { readonly namespace?: string }, cluster: Cluster): VmRef => ({
  namespace: flags.namespace ?? cluster.namespace ?? 'default',
  name,
})

/** @param subresource such as `attach/console`; only a screenshot is answered at once */
export function sessionPath(
  { namespace, name }: VmRef,
  subresource: string,
  query: { readonly [name: string]: string } = {},
): string {
  const vm = `namespaces/${encodeURIComponent(namespace)}/virtualmachines/${encodeURIComponent(name)}`
  const search = new URLSearchParams(query).toString()
  const group = subresource === 'screenshot' ? 'subresources.virtset.io' : 'sessions.virtset.io'
  return `/apis/${group}/v1alpha1/${vm}/${subresource}${search === '' ? '' : `?${search}`}`
}

/**
 * Whether the VM runs; if not, prints why it has no guest. So a wrong name is reported before the first session. For
 * users who cannot read VMs, the first session reports it.
 */
export async function hasGuest(vm: VmRef, { kube }: Cluster, world: Pick<World, 'err'>): Promise<boolean> {
  try {
    const { status } = await kube.get(virtualMachines, vm)
    const phase = status?.phase ?? 'Pending'
    if (phase === 'Running') return true
    world.err(errorLine(`the VM "${vm.name}" has no guest to connect to: its phase is ${phase}; it must be Running`))
    return false
  } catch (error) {
    if (isForbidden(error)) return true
    throw error
  }
}

/** Whether the session is refused as long as the VM and the permissions do not change. */
export const isRefusedForever = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.status.code < 500 && error.status.code !== 429

/** Prints why a session was refused, in one line. */
export async function refused(
  error: unknown,
  vm: VmRef,
  cluster: Cluster,
  world: Pick<World, 'err'>,
): Promise<ExitCode> {
  if (error instanceof ApiUnreachable) throw clusterFailure(error, cluster, '')
  if (!(error instanceof ApiError)) throw error
  world.err(await refusalText(error, vm, cluster))
  return exitCodes.refused
}

async function refusalText(error: ApiError, vm: VmRef, cluster: Cluster): Promise<string> {
  if (isNotFound(error)) {
    // The API server's words for an API group that it does not have.
    if (error.status.message === '404 page not found') return noSessions
    if (await isStoppedConfig(cluster, vm)) return stoppedText(vm)
  }
  return refusalLine(error)
}

const noSessions = errorLine(
  "this cluster's virtset is older than kubectl-vm, and has no API group sessions.virtset.io",
)

const stoppedText = ({ name }: VmRef): string =>
  errorLine(`the VM of virtualmachineconfig "${name}" does not run; start it: kubectl vm start ${name}`)

/** The VM of a config has the config's name. */
async function isStoppedConfig({ kube }: Cluster, vm: VmRef): Promise<boolean> {
  try {
    return (await unlessNotFound(kube.get(virtualMachineConfigs, vm))) !== undefined
  } catch (error) {
    if (error instanceof ApiError) return false
    throw error
  }
}

/** A TCP port. @throws Usage */
export function parsePort(text: string, least = 1): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1
  if (port < least || port > 65_535) throw new Usage(`"${text}" is not a port from ${least} to 65535`)
  return port
}

import type { RestartRequest, VirtualMachineConfig } from '../../api/config.ts'
import { isFinished } from '../../api/virtual-machine.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { templateWithClaims } from '../../api/claim-template.ts'
import { generateNameFor, gracePeriodAnnotation, isControlledBy, virtualMachineOf } from '../../api/template.ts'
import { revisionOf } from '../../presets/compile.ts'
import { isAlreadyExists, isConflict, unlessNotFound } from '../../runtime/api-error.ts'
import { sleep, timestamp } from '../../runtime/clock.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { identity, pathOf, resource, virtualMachineConfigs, virtualMachines } from '../../runtime/resource.ts'
import type { Persisted } from '../../runtime/resource.ts'
import type { Status } from '../admission/request.ts'
import { createLanes } from '../../runtime/lanes.ts'
import type { PowerRequest } from './route.ts'
import { createShares } from '../../runtime/shares.ts'

/** What a start, which reads them again and again while it waits, decides by. */
const configs = resource<VirtualMachineConfig>({
  ...virtualMachineConfigs,
  read: { metadata: { ...identity, deletionTimestamp: true }, spec: true, status: { restart: true } },
})
/** A VM has one controller. Users can add other owners. */
const mostOwners = 64
const vms = resource<VirtualMachine>({
  ...virtualMachines,
  read: {
    metadata: {
      ...identity,
      deletionTimestamp: true,
      annotations: { [gracePeriodAnnotation]: true },
      ownerReferences: [mostOwners, true],
    },
    status: { phase: true },
  },
})

type Config = Persisted<VirtualMachineConfig>
type StoredVm = Persisted<VirtualMachine>

export type PowerResponse =
  | { readonly code: 201; readonly object: unknown }
  | { readonly code: 202; readonly uid: string; readonly message: string }
  | { readonly refused: Status }

/**
 * Performs a request. Errors of the API server are thrown unchanged. Once the signal is aborted, nothing more is sent:
 * a write that waits for its Retry-After could start a VM after a later `stop` was refused because none is running.
 * Except that a VM whose grace period is being written is deleted all the same.
 */
export type Power = (request: PowerRequest, signal?: AbortSignal) => Promise<PowerResponse>

/** The next step of a request. */
export type Step =
  | { readonly do: 'create' }
  /** Delete the finished VM, unless it is being deleted; wait until no VM is left; then decide again. */
  | { readonly do: 'clear'; readonly vm: StoredVm | undefined }
  | { readonly do: 'delete'; readonly vm: StoredVm }
  /** Cancel the restart in progress, and delete the VM if there is one. */
  | { readonly do: 'cancel restart'; readonly restart: RestartRequest }
  /** Request the replacement of the VM in the config's status; the controller replaces it. */
  | { readonly do: 'request restart'; readonly vm: StoredVm }
  | { readonly do: 'done'; readonly uid: string; readonly message: string }
  | { readonly do: 'refuse'; readonly message: string }

/** @param vm the VM with the config's name, even if another owner controls it */
export function decide(request: PowerRequest, config: Config, vm: StoredVm | undefined): Step {
  if (config.metadata.deletionTimestamp !== undefined) return refuse('it is being deleted')
  if (vm !== undefined && !isControlledBy(vm, { kind: 'VirtualMachineConfig', metadata: config.metadata })) {
    return refuse(`the VM ${vm.metadata.name} is not controlled by this config`)
  }
  if (request.verb === 'start') return decideStart(request, config, vm)
  return request.verb === 'stop' ? decideStop(config, vm) : decideRestart(config, vm)
}

function decideStart(request: PowerRequest, config: Config, vm: StoredVm | undefined): Step {
  const { restart } = config.status ?? {}
  if (restart !== undefined && restart.cancelled !== true && !isReplaced(config, vm)) {
    return refuse('it is restarting')
  }
  if (restart?.cancelled === true || vm?.metadata.deletionTimestamp !== undefined) {
    if (request.isWaiting || (vm !== undefined && isFinished(vm))) return { do: 'clear', vm }
    return refuse('it is stopping; start it after it has stopped, or add wait=true')
  }
  if (vm === undefined) return { do: 'create' }
  return isFinished(vm) ? { do: 'clear', vm } : refuse('it is already running')
}

function decideStop(config: Config, vm: StoredVm | undefined): Step {
  const { restart } = config.status ?? {}
  if (restart !== undefined && restart.cancelled !== true) return { do: 'cancel restart', restart }
  if (restart !== undefined && (vm === undefined || isFinished(vm))) {
    return { do: 'done', uid: restart.uid, message: 'it is already stopping' }
  }
  return vm === undefined || isFinished(vm) ? refuse('it is not running') : { do: 'delete', vm }
}

function decideRestart(config: Config, vm: StoredVm | undefined): Step {
  const { restart } = config.status ?? {}
  if (restart?.cancelled === true) return refuse('it is stopping')
  if (restart !== undefined && !isReplaced(config, vm)) {
    return { do: 'done', uid: restart.uid, message: 'it is already restarting' }
  }
  if (vm === undefined || isFinished(vm)) return refuse('it is not running')
  if (vm.metadata.deletionTimestamp !== undefined) return refuse('it is stopping')
  return { do: 'request restart', vm }
}

/** Whether the restart is done, even if the controller has not removed it from the status yet. */
const isReplaced = ({ status }: Config, vm: StoredVm | undefined): boolean =>
  vm !== undefined && vm.metadata.uid !== status?.restart?.uid

const refuse = (message: string): Step => ({ do: 'refuse', message })

/** How long a start waits for the previous VM; the API server times a request out after a minute. */
const longestWaitMs = 45_000
/** The next poll is after a quarter of the time waited so far, within these limits. */
const shortestPollMs = 200
const longestPollMs = 2000
/** The number of starts that may wait concurrently per namespace. */
const mostWaiting = 16
/** The number of requests that may use the API server concurrently. Others use the same client. */
const lanes = { all: 6, perNamespace: 4 }
const fieldManager = 'virtset-webhooks'
/** The maximum number of conflicts with concurrent writers. */
const maxConflicts = 20

/** The signal of a request, for all that is sent for it. */
interface Abortable {
  readonly signal?: AbortSignal
}

export function createPower(kube: KubeClient, clock: Clock): Power {
  const inTurn = createLanes(lanes)
  const waiting = createShares(mostWaiting)

  const find = async (
    { namespace, name }: PowerRequest,
    options: Abortable,
  ): Promise<{ config: Config; vm: StoredVm | undefined }> => {
    const config = await kube.get(configs, { namespace, name }, options)
    return { config, vm: await unlessNotFound(kube.get(vms, { namespace, name }, options)) }
  }

  const create = async (
    { isDryRun, namespace, name }: PowerRequest,
    config: Config,
    isFree: boolean,
    options: Abortable,
  ): Promise<PowerResponse> => {
    const spec = { template: templateWithClaims(config) }
    const owner = { ...config, kind: 'VirtualMachineConfig', spec } as const
    const vm = virtualMachineOf(owner, name, revisionOf(config.spec.template))
    const { name: _taken, ...nameless } = vm.metadata
    // A dry run must not fail because of the old VM, which a real start would have deleted first.
    const object = isFree ? vm : { ...vm, metadata: { ...nameless, generateName: generateNameFor(name) } }
    const query = new URLSearchParams({ fieldManager, ...(isDryRun ? { dryRun: 'All' } : {}) })
    // Not kube.create: the response to a dry run has no resourceVersion and would be rejected as malformed.
    const path = `${pathOf(virtualMachines, { namespace })}?${query.toString()}`
    return { code: 201, object: await kube.request('POST', path, object, options) }
  }

  const remove = async (vm: StoredVm, request: PowerRequest, options: Abortable): Promise<void> => {
    const { uid, name, resourceVersion, deletionTimestamp, annotations = {} } = vm.metadata
    const { namespace, isDryRun: dryRun, gracePeriodSeconds } = request
    const ref = { namespace, name }
    // Of a stop whose deletion failed. That of a VM that is being deleted counts.
    const isLeft = annotations[gracePeriodAnnotation] !== undefined && deletionTimestamp === undefined
    if (gracePeriodSeconds === undefined && !isLeft) {
      await unlessNotFound(kube.delete(virtualMachines, ref, { ...options, uid, dryRun }))
      return
    }
    const write = async (value: string | null, version: { readonly resourceVersion?: string }): Promise<void> => {
      const body = { metadata: { uid, ...version, annotations: { [gracePeriodAnnotation]: value } } }
      await kube.patch(virtualMachines, ref, { type: 'merge', body }, { dryRun })
    }
    options.signal?.throwIfAborted()
    // All without the signal: a VM that is not deleted would keep the grace period, and a later deletion without one
    // would kill its guest. The UID is that of this VM, so none that is created later is meant. Only what was read is
    // removed, not what another stop has written since.
    const value = gracePeriodSeconds === undefined ? null : String(gracePeriodSeconds)
    // The controller can have deleted it for a restart.
    await unlessNotFound(write(value, value === null ? { resourceVersion } : {}))
    try {
      await unlessNotFound(kube.delete(virtualMachines, ref, { uid, dryRun }))
    } catch (error) {
      for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
        const left = await unlessNotFound(kube.get(vms, ref)).catch(() => undefined)
        if (left?.metadata.uid !== uid || left.metadata.deletionTimestamp !== undefined) break
        if (left.metadata.annotations?.[gracePeriodAnnotation] !== value) break
        const { resourceVersion } = left.metadata
        // The handler writes the status of a VM at any time.
        const isOutdated = await write(null, { resourceVersion }).then(() => false, isConflict)
        if (!isOutdated) break
      }
      throw error
    }
  }

  const writeRestart = async (
    config: Config,
    restart: RestartRequest,
    { isDryRun: dryRun }: PowerRequest,
    options: Abortable,
  ): Promise<void> => {
    const { namespace, name, resourceVersion, uid } = config.metadata
    const ref = namespace === undefined ? { name } : { namespace, name }
    // The merge would keep that of the restart before, and with it end another guest.
    const body = { metadata: { uid, resourceVersion }, status: { restart: { gracePeriodSeconds: null, ...restart } } }
    await kube.patch(virtualMachineConfigs, ref, { type: 'merge', body }, { ...options, subresource: 'status', dryRun })
  }

  /** Undefined: wait, then observe and decide again. */
  const perform = async (
    step: Step,
    request: PowerRequest,
    config: Config,
    isInTime: boolean,
    mayWait: () => boolean,
    options: Abortable,
  ): Promise<PowerResponse | undefined> => {
    switch (step.do) {
      case 'create':
        return create(request, config, true, options)
      case 'clear':
        if (request.isDryRun) return create(request, config, false, options)
        if (!isInTime) return conflict(request, 'the previous VM still exists; try again')
        if (!mayWait()) return tooManyWaiting(request)
        if (step.vm !== undefined && step.vm.metadata.deletionTimestamp === undefined) {
          await remove(step.vm, request, options)
        }
        return undefined
      case 'delete':
        await remove(step.vm, request, options)
        return (await cancelLateRestart(step.vm, request)) ?? accepted(step.vm, 'the guest is shutting down')
      case 'cancel restart':
        return cancelRestart(step.restart, request, config, options)
      case 'request restart':
        await writeRestart(config, restartOf(step.vm, request, timestamp(clock)), request, options)
        return accepted(step.vm, 'the VM will be replaced')
      case 'done':
        return { code: 202, uid: step.uid, message: step.message }
      case 'refuse':
        return conflict(request, step.message)
    }
  }

  /**
   * A restart that was requested after this stop had read the config, and before it deleted the VM, would start another
   * one. A restart that looks later finds that the VM is being deleted, and is refused.
   */
  const cancelLateRestart = async (
    { metadata: { uid } }: StoredVm,
    request: PowerRequest,
  ): Promise<PowerResponse | undefined> => {
    const { namespace, name, isDryRun } = request
    // Without the signal, as the VM is deleted already.
    const config = isDryRun ? undefined : await unlessNotFound(kube.get(configs, { namespace, name }))
    const { restart } = config?.status ?? {}
    if (config === undefined || restart?.uid !== uid || restart.cancelled === true) return undefined
    return cancelRestart(restart, request, config, {})
  }

  /** The old VM may be gone and the new one not yet created; the controller deletes one that is created meanwhile. */
  const cancelRestart = async (
    restart: RestartRequest,
    request: PowerRequest,
    config: Config,
    options: Abortable,
  ): Promise<PowerResponse> => {
    const { uid, requestedAt } = restart
    await writeRestart(config, { uid, requestedAt, ...graceOf(request), cancelled: true }, request, options)
    const { metadata } = config
    const { vm } = await find(request, options)
    if (vm !== undefined && isControlledBy(vm, { kind: 'VirtualMachineConfig', metadata }) && !isFinished(vm)) {
      await remove(vm, request, options)
    }
    return { code: 202, uid: vm?.metadata.uid ?? metadata.uid, message: 'the restart is cancelled' }
  }

  return async (request, signal) => {
    const startedMs = clock.monotonic()
    const waitedMs = () => clock.monotonic() - startedMs
    let leave: (() => void) | undefined
    const mayWait = () => (leave ??= waiting.take(request.namespace)) !== undefined
    const options = signal === undefined ? {} : { signal }
    const pass = async () => {
      const { config, vm } = await find(request, options)
      return perform(decide(request, config, vm), request, config, waitedMs() < longestWaitMs, mayWait, options)
    }
    try {
      for (let conflicts = 0; ;) {
        try {
          const response = await inTurn.run(request.namespace, pass, signal)
          if (response !== undefined) return response
          await sleep(clock, Math.min(Math.max(shortestPollMs, waitedMs() / 4), longestPollMs), signal)
        } catch (error) {
          // A concurrent write won: observe and decide again.
          if ((!isAlreadyExists(error) && !isConflict(error)) || ++conflicts >= maxConflicts) throw error
        }
      }
    } finally {
      leave?.()
    }
  }
}

const restartOf = ({ metadata }: StoredVm, request: PowerRequest, requestedAt: string): RestartRequest => ({
  uid: metadata.uid,
  requestedAt,
  ...graceOf(request),
})

const graceOf = ({ gracePeriodSeconds }: PowerRequest): Pick<RestartRequest, 'gracePeriodSeconds'> =>
  gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }

const accepted = ({ metadata }: StoredVm, message: string): PowerResponse => ({ code: 202, uid: metadata.uid, message })

const conflict = ({ verb, name }: PowerRequest, message: string): PowerResponse => ({
  refused: {
    code: 409,
    reason: 'Conflict',
    message: `Operation cannot be fulfilled on virtualmachineconfigs/${verb} "${name}": ${message}`,
  },
})

const tooManyWaiting = ({ namespace }: PowerRequest): PowerResponse => ({
  refused: {
    code: 429,
    reason: 'TooManyRequests',
    message: `${mostWaiting} starts in the namespace "${namespace}" already wait for their previous VM; try again`,
  },
})

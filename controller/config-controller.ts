import { claimsOfVm, templateWithClaims } from '../api/claim-template.ts'
import { controllerOf, gracePeriodAnnotation, isOwning, virtualMachineOf } from '../api/template.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { revisionOf } from '../presets/compile.ts'
import { isAlreadyExists, isRefusal, unlessCounting, unlessNotFound } from '../runtime/api-error.ts'
import { createBackOff, type BackOff } from '../runtime/back-off.ts'
import { timestamp } from '../runtime/clock.ts'
import { startReflector } from '../runtime/reflector.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { keyOf, refOf, resource, virtualMachineConfigs, virtualMachines } from '../runtime/resource.ts'
import type { KubeObject, Persisted } from '../runtime/resource.ts'
import type { Change } from '../runtime/store.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { CommonAction } from './action.ts'
import { planConfig, refusedToRestart } from './config-plan.ts'
import type { ConfigAction, ObservedConfig } from './config-plan.ts'
import { gatherMs, isLabelling } from './labelling.ts'
import { createLoop } from './loop.ts'
import type { ControllerContext } from './loop.ts'
import { createPassDeadline } from './pass-deadline.ts'
import { persistentVolumeClaims } from './pod.ts'
import { configSlimmer, readOwner } from './slim-owner.ts'
import type { CachedConfig } from './slim-owner.ts'

type Config = Persisted<CachedConfig>
type Vm = Persisted<VirtualMachine>
type OwnAction = Exclude<ConfigAction, CommonAction<unknown>>

interface ConfigControllerOptions extends ControllerContext {
  readonly vms: Reflector<VirtualMachine>
  readonly random?: () => number
}

/** Maintains `status` of configs, and finishes restarts. */
interface ConfigController {
  readonly configs: Reflector<CachedConfig>
  /**
   * Whether a restart has created this VM, and its config has not recorded that yet. If the VM were removed before, the
   * config would create another.
   */
  awaits(vm: Pick<Vm, 'metadata'>): boolean
  lead(): Promise<void>
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

const { accepts: _accepts, ...kind } = virtualMachineConfigs
const cachedConfigs = resource<CachedConfig>({ ...kind, read: readOwner })

const concurrency = 4
/** When a refused restart or claim is tried again: a user may be correcting the preset or the quota that refused it. */
const refusedRetry = { firstMs: 10_000, longestMs: 300_000, healthyMs: 600_000 }

interface Refused {
  readonly backOff: BackOff
  /** What was refused. Another spec, or another restart, is tried at once. */
  readonly wanted: string
  readonly untilMs: number
}

const wantedOf = ({ metadata, status }: Config): string => `${metadata.generation} ${status?.restart?.requestedAt}`

export function startConfigController(options: ConfigControllerOptions): ConfigController {
  const { kube, vms, log, clock, random = Math.random } = options
  const { slim, forget } = configSlimmer()
  const refused = new Map<string, Refused>()
  /** The claims that were refused in passes that ended before all claims were tried. The next pass tries the others. */
  const tried = new Map<string, { readonly wanted: string; readonly claims: ReadonlySet<string> }>()
  const retry = (config: Config) => {
    const key = keyOf(config.metadata)
    const { backOff } = refused.get(key) ?? { backOff: createBackOff({ ...refusedRetry, clock, random }) }
    const afterMs = backOff.next()
    const entry = { backOff, wanted: wantedOf(config), untilMs: clock.monotonic() + afterMs }
    // The config may have been deleted during the pass: no change would remove the entry then.
    if (configs.store.get(key) !== undefined) refused.set(key, entry)
    return { do: 'requeueAfter', afterMs } as const
  }
  /** What to do instead of a creation that was refused a moment ago, however often labels change. */
  const waitOf = (config: Config): readonly ConfigAction[] | undefined => {
    const known = refused.get(keyOf(config.metadata))
    const leftMs = known?.wanted === wantedOf(config) ? known.untilMs - clock.monotonic() : 0
    return leftMs > 0 ? [{ do: 'requeueAfter', afterMs: leftMs }] : undefined
  }
  const configs = startReflector({ kube, resource: cachedConfigs, log, clock, slim })

  const note = (change: Change<KubeObject>) => {
    const key = keyOf(change.object.metadata)
    if (isLabelling(change)) loop.addAfter(key, gatherMs)
    else loop.add(key)
  }

  configs.onChange((change) => {
    const { kind, object } = change
    if (kind === 'deleted') {
      loop.forget(object.metadata)
      forget(object.metadata.uid)
      refused.delete(keyOf(object.metadata))
      tried.delete(keyOf(object.metadata))
    }
    note(change)
  })
  // The VM of a config has its name. A VM of that name matters also where another owner has it.
  vms.onChange((change) => {
    const { object } = change
    const owner = controllerOf(object)
    const isOwned = owner !== undefined && isOwning(owner) && owner.kind === 'VirtualMachineConfig'
    if (isOwned || configs.store.get(keyOf(object.metadata)) !== undefined) note(change)
  })

  const reconcile = async (key: string): Promise<void> => {
    const cached = configs.store.get(key)
    const observed = cached && (await observe(key, loop.newest(cached)))
    if (observed === undefined) return
    const target = { resource: cachedConfigs, object: observed.config }
    const wait = waitOf(observed.config)
    // What keeps claims from being created must not keep a restart from being cancelled, nor the status from being
    // written. A VM waits for its claims by itself.
    const claims = wait
      ? { isComplete: true, actions: wait }
      : await createClaims(observed).catch((error: unknown) => ({ isComplete: true, actions: [], error }))
    // Events first: a VM that is refused replaces what follows.
    const actions = [...claims.actions, ...(claims.isComplete ? planConfig(observed) : [])]
    if (!claims.isComplete) loop.add(key)
    await loop.perform(target, actions, (action) => act(key, observed, action, wait))
    if ('error' in claims) throw claims.error
  }

  /** A restart must happen once: while one is requested, nothing is concluded from a cache, which may lag. */
  const observe = async (key: string, known: Config): Promise<ObservedConfig | undefined> => {
    const isRestarting = known.status?.restart !== undefined
    const config = isRestarting ? await unlessNotFound(kube.get(cachedConfigs, refOf(key))) : known
    if (config === undefined) return undefined
    const vm = isRestarting ? await unlessNotFound(kube.get(virtualMachines, refOf(key))) : vms.store.get(key)
    return { config, vm, revision: config.revision ?? revisionOf(config.spec?.template), now: timestamp(clock) }
  }

  /** The config as a whole if its claims may be missing. A VM that has its pod has its claims. */
  const ownerOfClaims = async ({ config, vm }: ObservedConfig) => {
    if (config.hasClaims !== true && config.spec?.claimTemplates === undefined) return undefined
    if (vm !== undefined && (vm.status?.phase ?? 'Pending') !== 'Pending') return undefined
    if (vm?.metadata.deletionTimestamp !== undefined) return undefined
    const ref = refOf(keyOf(config.metadata))
    const whole = config.spec === undefined ? await unlessNotFound(kube.get(cachedConfigs, ref)) : config
    if (whole?.spec === undefined || whole.metadata.deletionTimestamp !== undefined) return undefined
    return { kind: 'VirtualMachineConfig', metadata: whole.metadata, spec: whole.spec } as const
  }

  /** Returns whether all have been tried, and what to do where the API server refused a claim. */
  const createClaims = async (
    observed: ObservedConfig,
  ): Promise<{ readonly isComplete: boolean; readonly actions: readonly ConfigAction[] }> => {
    const { config } = observed
    const key = keyOf(config.metadata)
    const before = tried.get(key)
    tried.delete(key)
    const owner = await ownerOfClaims(observed)
    if (owner === undefined) return { isComplete: true, actions: [] }
    const wanted = wantedOf(config)
    const failed = new Set(before?.wanted === wanted ? before.claims : [])
    const actions: ConfigAction[] = []
    const deadline = createPassDeadline(clock)
    for (const claim of claimsOfVm(owner, owner.metadata.name)) {
      const { name } = claim.metadata
      if (failed.has(name)) continue
      if ((await unlessNotFound(kube.get(persistentVolumeClaims, { ...refOf(key), name }))) !== undefined) continue
      if (deadline.isOver()) {
        if (configs.store.get(key) !== undefined) tried.set(key, { wanted, claims: failed })
        return { isComplete: false, actions }
      }
      try {
        await unlessCounting(kube.create(persistentVolumeClaims, claim))
      } catch (error) {
        if (isAlreadyExists(error)) continue
        if (!isRefusal(error)) throw error
        failed.add(name)
        const message = `the claim ${name} could not be created: ${error.status.message}`
        actions.push({ do: 'recordEvent', type: 'Warning', reason: 'FailedCreateClaim', message })
      }
    }
    return { isComplete: true, actions: failed.size === 0 ? actions : [...actions, retry(config)] }
  }

  const act = async (
    key: string,
    observed: ObservedConfig,
    action: OwnAction,
    wait: readonly ConfigAction[] | undefined,
  ): Promise<readonly ConfigAction[] | undefined> => {
    if (action.do === 'createVm') return wait ?? createVm(observed)
    await deleteVm(key, action.vm, action.gracePeriodSeconds)
    return undefined
  }

  const createVm = async (observed: ObservedConfig): Promise<readonly ConfigAction[] | undefined> => {
    const { config, revision } = observed
    if (config.spec === undefined) throw new Error('a VM is created only during a restart, when the config is whole')
    const spec = { template: templateWithClaims({ metadata: config.metadata, spec: config.spec }) }
    const owner = { ...config, spec, kind: 'VirtualMachineConfig' } as const
    try {
      await unlessCounting(kube.create(virtualMachines, virtualMachineOf(owner, config.metadata.name, revision)))
      return undefined
    } catch (error) {
      if (!isRefusal(error)) throw error
      return [...refusedToRestart(observed, error.status.message), retry(config)]
    }
  }

  const deleteVm = async (key: string, { metadata }: Vm, gracePeriodSeconds: number | undefined): Promise<void> => {
    const { uid, annotations: { [gracePeriodAnnotation]: left } = {} } = metadata
    // Also that of a stop whose deletion failed.
    if (gracePeriodSeconds !== undefined || left !== undefined) {
      const annotations = { [gracePeriodAnnotation]: gracePeriodSeconds === undefined ? null : `${gracePeriodSeconds}` }
      await kube.patch(virtualMachines, refOf(key), { type: 'merge', body: { metadata: { uid, annotations } } })
    }
    await kube.delete(virtualMachines, refOf(key), { uid })
  }

  const loop = createLoop<CachedConfig>({
    ...options,
    slim,
    reconcile,
    keys: () => configs.store.list().map(({ metadata }) => keyOf(metadata)),
    caches: [configs, vms],
    concurrency,
  })

  return {
    configs,
    awaits({ metadata }) {
      const cached = configs.store.get(keyOf(metadata))
      if (cached === undefined || cached.metadata.deletionTimestamp !== undefined) return false
      if (controllerOf({ metadata })?.uid !== cached.metadata.uid) return false
      const { restart } = loop.newest(cached).status ?? {}
      return restart !== undefined && restart.cancelled !== true && restart.uid !== metadata.uid
    },
    lead: () => loop.lead(),
    statistics: () => loop.statistics(),
    async stop() {
      await Promise.all([configs.stop(), loop.stop()])
    },
  }
}

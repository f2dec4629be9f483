import { isDeepStrictEqual } from 'node:util'
import type { Preset, PresetStatus } from '../api/preset.ts'
import type { WatchedInventory } from '../inventory/watched.ts'
import { virtualMachineStructure } from '../presets/structure.ts'
import { timestamp } from '../runtime/clock.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { clusterVirtualMachinePresets, keyOf, refOf, virtualMachinePresets } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { CommonAction } from './action.ts'
import type { Engine } from './engine.ts'
import { createLoop } from './loop.ts'
import type { ControllerContext } from './loop.ts'
import { createOverlaps } from './overlaps.ts'
import { presetStatus } from './preset-status.ts'
import { createPresetUsage } from './preset-usage.ts'
import type { CachedVm } from './slim-vm.ts'

interface PresetControllerOptions extends ControllerContext {
  readonly inventory: WatchedInventory
  readonly vms: Pick<Reflector<CachedVm>, 'onChange' | 'store' | 'synced'>
  readonly engine: Pick<Engine, 'presetsOf'>
}

/** Maintains `status` of presets. */
interface PresetController {
  lead(): Promise<void>
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

/**
 * How long after a change the counts are updated: a VM that comes and goes changes them twice, and each write goes to
 * every watch of presets. Whether the preset itself is accepted, and in which revision, is written at once.
 */
const countDelayMs = 5000
/** A preset can change many times a second, and each change can concern the statuses of many others. */
const overlapsGatherMs = 1000
/**
 * Where counts are expensive they are updated less often: counting uses a twentieth of the time, and writes ten
 * statuses a second.
 */
const pauseFactor = 20
const pausePerWriteMs = 100
/** The key that counts the VMs of presets; no preset has it, since a name contains no star. */
const everything = '*'
const concurrency = 4

export function startPresetController(options: PresetControllerOptions): PresetController {
  const { inventory, vms, engine, clock } = options
  const overlaps = createOverlaps((id) => inventory.candidates.get(id), virtualMachineStructure())
  /** The revision of each preset whose overlaps are known. Only passes write it: without the lead, it stays empty. */
  const compared = new Map<string, string>()
  const usage = createPresetUsage({
    vms: vms.store,
    candidates: inventory.candidates,
    namespaceOf: (name) => inventory.namespace(name),
    presetsOf: (vm) => engine.presetsOf(vm),
  })
  let hasCounted = false
  let nextCountMs = -Infinity

  const countLater = () => loop.addAfter(everything, Math.max(countDelayMs, nextCountMs - clock.monotonic()))

  const restartLater = () => {
    usage.restart()
    countLater()
  }

  vms.onChange((change) => {
    if (usage.update(change)) countLater()
  })
  inventory.onPresetChange((id, isNewSpec) => {
    loop.add(id)
    if (!isNewSpec) return
    overlaps.update(id)
    restartLater()
  })
  // Without a namespace, it is a change of a cluster preset, which is handled above, or of a node.
  inventory.onChange((namespace) => {
    if (namespace !== undefined) restartLater()
  })

  /** The first count is followed by a pass over every preset, a later one by passes over those that it concerns. */
  const count = async (): Promise<void> => {
    const startMs = clock.monotonic()
    const changed = await usage.count()
    const endMs = clock.monotonic()
    // VMs can name presets that do not exist.
    const written = [...changed].filter((id) => inventory.preset(id) !== undefined)
    nextCountMs = endMs + Math.max((endMs - startMs) * pauseFactor, written.length * pausePerWriteMs)
    for (const id of hasCounted ? written : inventory.presets().map(({ metadata }) => keyOf(metadata))) loop.add(id)
    hasCounted = true
  }

  const compare = async (id: string): Promise<void> => {
    const revision = inventory.candidates.get(id)?.origin.revision
    if (revision !== undefined && compared.get(id) === revision) return
    // What is gone is always forgotten: it may have been marked, and deleted before its pass.
    if (revision === undefined) compared.delete(id)
    else compared.set(id, revision)
    for (const other of await overlaps.change(id)) {
      compared.delete(other)
      loop.addAfter(other, overlapsGatherMs)
    }
  }

  const reconcile = async (key: string): Promise<void> => {
    if (key === everything) return count()
    await compare(key)
    const stored = inventory.preset(key)
    if (stored === undefined) return loop.forget(refOf(key))
    const object = loop.newest(stored)
    const resource = object.metadata.namespace === undefined ? clusterVirtualMachinePresets : virtualMachinePresets
    await loop.perform({ resource, object }, plan(key, object), async () => undefined)
  }

  const plan = (id: string, preset: Persisted<Preset>): CommonAction<PresetStatus>[] => {
    const compiled = inventory.candidates.get(id)
    const compilation = compiled
      ? { revision: compiled.origin.revision, overlaps: overlaps.of(id) }
      : { causes: inventory.quarantined.get(id)?.causes ?? [] }
    const status = presetStatus(preset, compilation, usage.of(id), timestamp(clock))
    if (isDeepStrictEqual(status, preset.status)) return []
    const fault = faultOf(status)
    if (fault === undefined || fault === faultOf(preset.status)) return [{ do: 'updateStatus', status }]
    const message = `The preset is not applied to any VM: ${fault}`
    return [
      { do: 'updateStatus', status },
      { do: 'recordEvent', type: 'Warning', reason: 'Quarantined', message },
    ]
  }

  const loop = createLoop<Preset>({
    ...options,
    reconcile,
    keys: () => [everything],
    caches: [inventory, vms],
    concurrency,
  })

  return { lead: () => loop.lead(), statistics: () => loop.statistics(), stop: () => loop.stop() }
}

/** Why a preset is not accepted, as its status states it. */
const faultOf = (status: PresetStatus | undefined): string | undefined =>
  status?.conditions?.find((condition) => condition.type === 'Accepted' && condition.status === 'False')?.message

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
import { countUsage, presetStatus, unused } from './preset-status.ts'
import type { Usage } from './preset-status.ts'
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
/**
 * Where counts are expensive they are updated less often: counting uses a twentieth of the time, and writes ten
 * statuses a second.
 */
const pauseFactor = 20
const pausePerWriteMs = 100
/** The key that counts the VMs of all presets; no preset has it, since a name contains no star. */
const everything = '*'
const concurrency = 4

export function startPresetController(options: PresetControllerOptions): PresetController {
  const { inventory, vms, engine, clock } = options
  const overlaps = createOverlaps((id) => inventory.candidates.get(id), virtualMachineStructure())
  /** The revision of each preset whose overlaps are known. Only passes write it: without the lead, it stays empty. */
  const compared = new Map<string, string>()
  let usages: ReadonlyMap<string, Usage> = new Map()
  let nextCountMs = -Infinity

  const countLater = () => loop.addAfter(everything, Math.max(countDelayMs, nextCountMs - clock.monotonic()))

  vms.onChange(countLater)
  inventory.onPresetChange((id, isNewSpec) => {
    loop.add(id)
    if (!isNewSpec) return
    overlaps.update(id)
    countLater()
  })

  const countAll = async (): Promise<void> => {
    const startMs = clock.monotonic()
    const before = usages
    usages = await countUsage(
      vms.store.list(),
      inventory.candidates,
      (name) => inventory.namespace(name),
      (vm) => engine.presetsOf(vm),
    )
    const endMs = clock.monotonic()
    const ids = inventory.presets().map(({ metadata }) => keyOf(metadata))
    const writes = ids.filter((id) => !isDeepStrictEqual(before.get(id), usages.get(id))).length
    nextCountMs = endMs + Math.max((endMs - startMs) * pauseFactor, writes * pausePerWriteMs)
    for (const id of ids) loop.add(id)
  }

  const compare = async (id: string): Promise<void> => {
    const revision = inventory.candidates.get(id)?.origin.revision
    if (revision !== undefined && compared.get(id) === revision) return
    // What is gone is always forgotten: it may have been marked, and deleted before its pass.
    if (revision === undefined) compared.delete(id)
    else compared.set(id, revision)
    for (const other of await overlaps.change(id)) {
      compared.delete(other)
      loop.add(other)
    }
  }

  const reconcile = async (key: string): Promise<void> => {
    if (key === everything) return countAll()
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
    const status = presetStatus(preset, compilation, usages.get(id) ?? unused, timestamp(clock))
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

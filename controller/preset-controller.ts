import { isDeepStrictEqual } from 'node:util'
import type { VirtualMachine } from '../api/machine.ts'
import type { Preset, PresetStatus } from '../api/preset.ts'
import { virtualMachineStructure } from '../presets/structure.ts'
import { unlessOutdated } from '../runtime/api-error.ts'
import { systemClock, timestamp } from '../runtime/clock.ts'
import type { Clock } from '../runtime/clock.ts'
import type { EventRecorder } from '../runtime/events.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { createOwnWrites } from '../runtime/own-writes.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { clusterVirtualMachinePresets, keyOf, unchanged, virtualMachinePresets } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Store } from '../runtime/store.ts'
import { startWorkQueue } from '../runtime/work-queue.ts'
import type { WorkQueue, WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { WatchedInventory } from '../inventory/watched.ts'
import type { Engine, Revision } from './engine.ts'
import { createOverlaps } from './overlaps.ts'
import { countUsage, presetStatus, unused } from './preset-status.ts'
import type { Usage } from './preset-status.ts'

export interface PresetControllerOptions {
  readonly kube: KubeClient
  readonly inventory: WatchedInventory
  readonly machines: Pick<Reflector<VirtualMachine>, 'onChange'> & {
    readonly store: Pick<Store<VirtualMachine>, 'list'>
  }
  readonly engine: Pick<Engine, 'presetsOf'>
  readonly events: Pick<EventRecorder, 'record'>
  readonly log: Logger
  readonly isLeader: () => boolean
  readonly clock?: Clock
}

/** Keeps `status` of presets. */
export interface PresetController {
  lead(): void
  statistics(): WorkQueueStatistics | undefined
  stop(): Promise<void>
}

/**
 * Counts are told this much later than they change: a VM that comes and goes changes them twice, and each write goes to everybody who watches presets. What
 * concerns the preset itself, accepted or not and in which revision, is told at once.
 */
const countDelayMs = 5000
/** The key under which all are counted anew; no preset has it, for a name has no star. */
const everything = '*'
const concurrency = 4

export function startPresetController(options: PresetControllerOptions): PresetController {
  const { kube, inventory, machines, engine, events, log, isLeader, clock = systemClock } = options
  const written = createOwnWrites<Preset>()
  /** Provenance is text; it is read once for each version of a VM. */
  const used = new WeakMap<VirtualMachine, ReadonlyMap<string, Revision>>()
  const overlaps = createOverlaps(
    (id) => inventory.candidates.get(id),
    () => inventory.presets().flatMap(({ metadata }) => inventory.candidates.get(keyOf(metadata)) ?? []),
    virtualMachineStructure(),
  )
  /** Presets whose overlaps are to be looked at. */
  const changed = new Set<string>()
  let usages: ReadonlyMap<string, Usage> = new Map()
  let queue: WorkQueue | undefined
  let isStopped = false

  machines.onChange(() => queue?.addAfter(everything, countDelayMs))
  inventory.onPresetChange((id) => {
    changed.add(id)
    queue?.add(id)
    queue?.addAfter(everything, countDelayMs)
  })

  const presetsOf = (machine: VirtualMachine) => {
    const known = used.get(machine) ?? engine.presetsOf(machine)
    if (known) used.set(machine, known)
    return known
  }

  const countAll = () => {
    usages = countUsage(machines.store.list(), inventory.candidates, (name) => inventory.namespace(name), presetsOf)
    for (const { metadata } of inventory.presets()) queue?.add(keyOf(metadata))
  }

  const reconcile = async (key: string): Promise<void> => {
    if (key === everything) return countAll()
    if (changed.delete(key)) {
      for (const other of overlaps.change(key)) {
        changed.add(other)
        queue?.add(other)
      }
    }
    const stored = inventory.preset(key)
    if (stored) await settle(key, written.newest(stored))
    else written.forget({ name: key })
  }

  const settle = async (id: string, preset: Persisted<Preset>): Promise<void> => {
    const compiled = inventory.candidates.get(id)
    const verdict = compiled
      ? { revision: compiled.origin.revision, overlaps: overlaps.of(id) }
      : { causes: inventory.quarantined.get(id)?.causes ?? [] }
    const status = presetStatus(preset, verdict, usages.get(id) ?? unused, timestamp(clock))
    if (isDeepStrictEqual(status, preset.status)) return
    if (!isLeader()) throw new Error('no longer leading')
    const resource = preset.metadata.namespace === undefined ? clusterVirtualMachinePresets : virtualMachinePresets
    const body = [...unchanged(preset), { op: 'add', path: '/status', value: status }]
    const { namespace, name } = preset.metadata
    const ref = namespace === undefined ? { name } : { namespace, name }
    written.note(await kube.patch(resource, ref, { type: 'json', body }, { subresource: 'status' }))
    const fault = faultOf(status)
    if (fault === undefined || fault === faultOf(preset.status)) return
    const { apiVersion, kind } = preset
    const regarding = { apiVersion, kind, ...ref, uid: preset.metadata.uid }
    events.record({ regarding, type: 'Warning', reason: 'Quarantined', message: `Takes part in nothing: ${fault}` })
  }

  return {
    lead() {
      if (isStopped) return
      queue = startWorkQueue({ reconcile: unlessOutdated(reconcile), concurrency, log, clock })
      queue.add(everything)
    },
    statistics: () => queue?.statistics(),
    async stop() {
      isStopped = true
      await queue?.drain()
    },
  }
}

/** Why a preset is not accepted, as its status says it. */
const faultOf = (status: PresetStatus | undefined): string | undefined =>
  status?.conditions?.find((condition) => condition.type === 'Accepted' && condition.status === 'False')?.message

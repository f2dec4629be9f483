import type { Namespace } from '../presets/candidates.ts'
import { virtualMachineKind } from '../presets/kind.ts'
import { findOverlaps, overlapText } from '../presets/overlap.ts'
import { inNamespace, inventoryOf, isPreset, type Manifest } from '../inventory/manifests.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import type { Change } from './change.ts'
import { considered, type Considered } from './considered.ts'
import { alternativesOf, assessEach, type Assessed } from './impact-of.ts'
import { stateOfCluster, type State } from './impact-state.ts'
import { nameOf } from './input.ts'
import { checkManifest } from './lint.ts'
import { readText, warning, type Problem } from './page-text.ts'
import { causeLine } from './scope.ts'
import type { Cluster } from './world.ts'

/** The text of a preset as admission would check it. */
export interface CheckedPreset {
  readonly problems: readonly Problem[]
  /** Absent if the text is refused. */
  readonly object?: Manifest
}

/** What a preset would do to the VMs of the cluster if it was applied. Writes nothing. */
export interface PresetImpact extends CheckedPreset {
  /** Presets that could disagree with it on some VM. */
  readonly overlaps: readonly string[]
  readonly vms: number
  readonly matched: number
  readonly different: number
  readonly refused: number
  readonly freed: number
  /** The VMs that it matches or that would differ, at most `mostShown`; those that would differ first. */
  readonly shown: readonly ShownVm[]
}

interface ShownVm {
  readonly namespace: string
  readonly name: string
  /** Absent if the preset does not select it. */
  readonly outcome?: Considered['outcome']
  readonly why?: string
  readonly changes: readonly Change[]
  readonly causes: readonly string[]
  readonly isFreed: boolean
}

const mostShown = 200

/** Without the cluster, so that it can run at each change of the text. */
export function checkPresetText(text: string, namespace: string): CheckedPreset {
  const read = readText(text)
  if ('problems' in read) return { problems: read.problems }
  if (!isPreset(read.object)) {
    const message = 'must be VirtualMachinePreset or ClusterVirtualMachinePreset'
    return { problems: [{ line: 1, severity: 'error', field: 'kind', message }] }
  }
  const object = inNamespace(read.object, namespace)
  const { causes, warnings } = checkManifest(object)
  const problems = [...read.problemsOf(causes), ...warnings.map(warning)]
  return causes.length > 0 ? { problems } : { problems, object }
}

/** @throws ApiError, ApiUnreachable */
export async function impactOfText(text: string, cluster: Cluster, namespace: string): Promise<PresetImpact> {
  const checked = checkPresetText(text, namespace)
  const none = { ...checked, overlaps: [], vms: 0, matched: 0, different: 0, refused: 0, freed: 0, shown: [] }
  if (checked.object === undefined) return none
  // A preset of a namespace selects only VMs of this namespace.
  const { metadata } = checked.object
  const own = typeof metadata === 'object' && metadata !== null && 'namespace' in metadata ? metadata.namespace : ''
  const state = await stateOfCluster(cluster, typeof own === 'string' && own !== '' ? own : undefined)
  const alternatives = alternativesOf([checked.object], state, namespace)
  const [preset] = alternatives.compiled.values()
  if (preset === undefined) return none
  const counts = { vms: 0, matched: 0, different: 0, refused: 0, freed: 0 }
  const [affected, matched]: [ShownVm[], ShownVm[]] = [[], []]
  for await (const one of assessEach(alternatives, state, namespace)) {
    counts.vms++
    const found = await matchOf(preset, one, alternatives.after, state)
    if (found !== undefined && found.outcome !== 'no match') counts.matched++
    if (one.affected !== undefined) {
      if (one.affected.isFreed) counts.freed++
      else if (one.affected.causes.length > 0) counts.refused++
      else counts.different++
    }
    const list = one.affected === undefined ? matched : affected
    const isShown = found !== undefined || one.affected !== undefined
    if (isShown && list.length < mostShown) list.push(shownOf(one, found))
  }
  const others = [...alternatives.before.all()].filter(({ id }) => id !== preset.id)
  const { overlaps } = findOverlaps(preset, others, virtualMachineKind().structure)
  return {
    ...checked,
    ...counts,
    overlaps: overlaps.map((overlap) => overlapText(overlap, 'VM')),
    shown: [...affected, ...matched].slice(0, mostShown),
  }
}

/** What the preset does with a VM; undefined if it does not select it. */
async function matchOf(
  preset: CompiledPreset,
  { vm, namespace: name }: Assessed,
  candidates: ReturnType<typeof alternativesOf>['after'],
  { labelsOf }: State,
): Promise<Considered | undefined> {
  const labels = labelsOf(name)
  const namespace: Namespace = { name, labels }
  if (vm === undefined) return undefined
  if (!candidates.select(vm.metadata.labels ?? {}, namespace).some(({ id }) => id === preset.id)) return undefined
  const inventory = inventoryOf({ candidates, quarantined: new Map() }, { labels })
  const all = await considered(
    vm,
    {
      scopes: { of: async () => ({ inventory, exempt: () => undefined }) },
      namespace: name,
    },
    { uid: vm.metadata.uid ?? '', isNew: false },
  )
  return all.find((one) => one.preset === preset.id)
}

const shownOf = ({ namespace, object, affected }: Assessed, found: Considered | undefined): ShownVm => ({
  namespace,
  name: nameOf(object),
  ...(found === undefined ? {} : { outcome: found.outcome }),
  ...(found?.why === undefined ? {} : { why: found.why }),
  changes: affected?.changes ?? [],
  causes: affected?.causes.map(causeLine) ?? [],
  isFreed: affected?.isFreed ?? false,
})

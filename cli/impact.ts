import type { Cause } from '../api/cause.ts'
import { parseVirtualMachine } from '../api/virtual-machine.ts'
import { refusalText } from '../api/refusal.ts'
import type { Capabilities } from '../api/capabilities.ts'
import { equalNodes, noNodes, type NodeCapabilities } from '../completion/nodes.ts'
import { asWritten, impactOn, type Alternatives } from '../completion/impact.ts'
import { createCandidates } from '../presets/candidates.ts'
import {
  clusterVirtualMachinePresets,
  namespaces,
  virtualMachinePresets,
  virtualMachines,
} from '../runtime/resource.ts'
import type { Inventory } from '../inventory/inventory.ts'
import { inventoryOf, isPreset, presetsOf, type Manifest } from '../inventory/manifests.ts'
import { changeLine, changesBetween, type Change } from './change.ts'
import { clusterFailure, nodesOf, pages } from './cluster.ts'
import { completeIn } from './completion.ts'
import { derivedUid } from './derive-uid.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { bytesOf, eachManifest, filesOf, nameOf, readInputs, readManifests } from './input.ts'
import type { Paint } from './paint.ts'
import { causeLine } from './scope.ts'
import type { Cluster, Streams, World } from './world.ts'

export const withoutClusterVms = '\nWithout a cluster: --vms FILE|DIR'

/** The source of existing VMs and current presets. */
export interface ImpactSource {
  /** Files or directories; the cluster if absent. */
  readonly files?: readonly string[]
  readonly namespace?: string
  readonly cluster: () => Promise<Cluster>
  /** Replaces the capabilities of the cluster's nodes. */
  readonly capabilities?: Capabilities
}

export interface ImpactOutput {
  readonly format: 'text' | 'json'
  /** VMs shown for each namespace. */
  readonly limit: number
  readonly quiet: boolean
  readonly paint: Paint
}

/** The current presets, labels of namespaces, and VMs. VMs are streamed. */
interface State {
  readonly presets: readonly Manifest[]
  readonly nodes: NodeCapabilities
  readonly labelsOf: (namespace: string) => { readonly [key: string]: string }
  readonly vms: AsyncIterable<Manifest>
}

/** A VM that would differ. */
interface Affected {
  readonly name: string
  readonly changes: readonly Change[]
  /** New causes. */
  readonly causes: readonly Cause[]
  /** Whether it was refused before and would be accepted now. */
  readonly isFreed: boolean
}

interface Tally {
  vms: number
  different: number
  refused: number
  conflicts: number
  freed: number
  shown: Affected[]
}

/**
 * `kubectl vm impact`: completes each VM as its user wrote it with the current presets, and again with the given ones
 * applied. VMs that the changed presets do not select are skipped. Writes nothing.
 */
export async function impact(
  paths: readonly string[],
  source: ImpactSource,
  how: ImpactOutput,
  world: Pick<World, 'out' | 'err' | 'stdin'>,
  step: (word: string) => void,
): Promise<ExitCode> {
  const given = await readManifests(paths, world.stdin)
  if (!given.some(isPreset)) throw new Usage(`${paths.join(', ')}: no preset found`)
  if (source.files !== undefined) {
    return assess(given, await stateOfFiles(source.files, source.namespace), source, how, world, step)
  }
  const cluster = await source.cluster()
  try {
    return await assess(given, await stateOfCluster(cluster, source.namespace), source, how, world, step)
  } catch (error) {
    throw clusterFailure(error, cluster, withoutClusterVms)
  } finally {
    await cluster.kube.close()
  }
}

async function stateOfCluster({ kube }: Cluster, namespace: string | undefined): Promise<State> {
  const presets: Manifest[] = []
  for (const resource of [clusterVirtualMachinePresets, virtualMachinePresets]) {
    for await (const page of pages(kube, resource, resource.namespaced ? namespace : undefined)) {
      presets.push(...page.map((preset) => ({ ...preset })))
    }
  }
  const labels = new Map<string, { readonly [key: string]: string }>()
  for await (const page of pages(kube, namespaces)) {
    for (const { metadata } of page) labels.set(metadata.name, metadata.labels ?? {})
  }
  return {
    presets,
    nodes: await nodesOf(kube),
    labelsOf: (name) => labels.get(name) ?? { 'kubernetes.io/metadata.name': name },
    vms: (async function* () {
      for await (const page of pages(kube, virtualMachines, namespace)) for (const vm of page) yield { ...vm }
    })(),
  }
}

/** The first pass reads only presets, and parses only files that mention them. */
async function stateOfFiles(paths: readonly string[], namespace: string | undefined): Promise<State> {
  const presets: Manifest[] = []
  const files = (await Promise.all(paths.map((path) => filesOf(path)))).flat()
  for (const file of files) {
    if (!(await bytesOf(file, nothing())).includes('VirtualMachinePreset')) continue
    for await (const object of eachManifest([file], nothing())) if (isPreset(object)) presets.push(object)
  }
  return {
    presets,
    nodes: noNodes,
    labelsOf: (name) => ({ 'kubernetes.io/metadata.name': name }),
    vms: (async function* () {
      for await (const input of readInputs(files, nothing())) {
        if (input.kind === 'unreadable') throw new Usage(input.message)
        if (input.kind === 'xml' || input.object['kind'] !== 'VirtualMachine') continue
        const isSelected = namespace === undefined || namespaceOf(input.object, 'default') === namespace
        if (isSelected) yield input.object
      }
    })(),
  }
}

async function* nothing(): AsyncGenerator<never> {}

const namespaceOf = ({ metadata }: Manifest, otherwise: string): string => {
  const named =
    typeof metadata === 'object' && metadata !== null && 'namespace' in metadata ? metadata.namespace : undefined
  return typeof named === 'string' ? named : otherwise
}

async function assess(
  given: readonly Manifest[],
  state: State,
  { files, namespace: own = 'default', capabilities }: ImpactSource,
  how: ImpactOutput,
  streams: Streams,
  step: (word: string) => void,
): Promise<ExitCode> {
  const now = presetsOf(state.presets, own)
  const proposed = presetsOf(given, own)
  for (const { id, causes } of proposed.quarantined.values()) streams.err(`${refusalText('preset', id, causes)}\n`)
  const before = createCandidates(now.compiled.values())
  const after = createCandidates([...now.compiled.values(), ...proposed.compiled.values()])
  const tallies = new Map<string, Tally>()
  for await (const object of state.vms) {
    const name = namespaceOf(object, own)
    const tally = tallies.get(name) ?? { vms: 0, different: 0, refused: 0, conflicts: 0, freed: 0, shown: [] }
    tallies.set(name, tally)
    const affected = affectedBy(
      object,
      name,
      { before, after },
      inventoryOf(
        { candidates: before, quarantined: new Map() },
        {
          labels: state.labelsOf(name),
          capabilities: capabilities === undefined ? state.nodes : equalNodes(capabilities),
        },
      ),
    )
    count(tally, affected, how.limit)
    step(`${name}/${nameOf(object)}`)
  }
  if (files !== undefined && tallies.size === 0) throw new Usage(`${files.join(', ')}: no VM found`)
  const sorted = [...tallies].toSorted(([left], [right]) => (left < right ? -1 : 1))
  streams.out(
    how.format === 'json'
      ? `${JSON.stringify(report(sorted, proposed.quarantined.size), null, 2)}\n`
      : reportText(sorted, how),
  )
  const isDifferent = sorted.some(([, { different, refused, freed }]) => different + refused + freed > 0)
  return isDifferent || proposed.quarantined.size > 0 ? exitCodes.refused : exitCodes.fine
}

function affectedBy(
  object: Manifest,
  namespace: string,
  alternatives: Alternatives,
  inventory: Inventory,
): Affected | undefined {
  const parsed = parseVirtualMachine(object)
  // An older version stored it with fields that are refused now, which presets cannot change.
  if ('causes' in parsed) return undefined
  const vm = asWritten(parsed.vm)
  const name = nameOf(object)
  const uid = vm.metadata.uid ?? derivedUid(namespace, name)
  const impact = impactOn(vm, inventory.namespace(namespace), alternatives, (candidates) =>
    completeIn(vm, namespace, { inventory: { ...inventory, candidates } }, { uid, skipAnnotation: true }),
  )
  if (impact === undefined) return undefined
  return {
    name,
    changes: impact.kind === 'different' ? changesBetween(impact.before, impact.after) : [],
    causes: impact.kind === 'refused' ? impact.causes : [],
    isFreed: impact.kind === 'freed',
  }
}

const isConflict = ({ rule }: Cause): boolean =>
  rule.startsWith('preset-conflict') || rule.startsWith('preset-exclusive')

function count(tally: Tally, affected: Affected | undefined, limit: number): void {
  tally.vms++
  if (affected === undefined) return
  if (affected.isFreed) tally.freed++
  else if (affected.causes.length > 0) tally.refused++
  else tally.different++
  if (affected.causes.some(isConflict)) tally.conflicts++
  if (tally.shown.length < limit) tally.shown.push(affected)
}

const sum = (tallies: readonly (readonly [string, Tally])[]): Omit<Tally, 'shown'> =>
  tallies.reduce(
    (all, [, { vms, different, refused, conflicts, freed }]) => ({
      vms: all.vms + vms,
      different: all.different + different,
      refused: all.refused + refused,
      conflicts: all.conflicts + conflicts,
      freed: all.freed + freed,
    }),
    { vms: 0, different: 0, refused: 0, conflicts: 0, freed: 0 },
  )

const report = (tallies: readonly (readonly [string, Tally])[], brokenPresets: number) => ({
  total: sum(tallies),
  brokenPresets,
  namespaces: Object.fromEntries(
    tallies.map(([name, { shown, ...counts }]) => [
      name,
      {
        ...counts,
        shown: shown.map((one) => ({
          name: one.name,
          ...(one.isFreed ? { freed: true } : {}),
          ...(one.changes.length === 0 ? {} : { changes: one.changes }),
          ...(one.causes.length === 0 ? {} : { causes: one.causes }),
        })),
      },
    ]),
  ),
})

/** The number of changes that an author will read. */
const maxChanges = 12

function reportText(tallies: readonly (readonly [string, Tally])[], { paint, quiet }: ImpactOutput): string {
  const lines: string[] = []
  for (const [name, tally] of tallies) {
    const affected = tally.different + tally.refused + tally.freed
    if (affected === 0) continue
    lines.push(paint('bold', `${name}: ${countsText(tally)}`))
    if (quiet) continue
    for (const one of tally.shown) lines.push(...affectedLines(one, paint).map((line) => `  ${line}`))
    if (affected > tally.shown.length) lines.push(`  and ${affected - tally.shown.length} more`)
  }
  const total = sum(tallies)
  const place = `${tallies.length} ${tallies.length === 1 ? 'namespace' : 'namespaces'}`
  return `${[...lines, `${place}: ${countsText(total)}`].join('\n')}\n`
}

function countsText({ vms, different, refused, conflicts, freed }: Omit<Tally, 'shown'>): string {
  const others = [
    refused > 0 ? `${refused} newly refused${conflicts > 0 ? ` (${conflicts} by a conflict)` : ''}` : '',
    freed > 0 ? `${freed} no longer refused` : '',
  ].filter((text) => text !== '')
  return [`${different} of ${vms} ${vms === 1 ? 'VM' : 'VMs'} would differ`, ...others].join(', ')
}

function affectedLines({ name, changes, causes, isFreed }: Affected, paint: Paint): string[] {
  if (isFreed) return [`${name}: no longer refused`]
  if (causes.length > 0)
    return [`${name}: ${paint('red', 'refused')}`, ...causes.map((cause) => `  * ${causeLine(cause)}`)]
  const rest = changes.length > maxChanges ? [`  and ${changes.length - maxChanges} more`] : []
  return [name, ...changes.slice(0, maxChanges).map((change) => `  ${changeLine(change, paint)}`), ...rest]
}

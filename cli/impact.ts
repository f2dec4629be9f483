import type { Cause } from '../api/cause.ts'
import type { Capabilities } from '../api/capabilities.ts'
import { refusalText } from '../api/refusal.ts'
import { isObjectPreset, isPreset, type Manifest } from '../inventory/manifests.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'
import { changeLine } from './change.ts'
import { clusterFailure } from './cluster.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { alternativesOf, assessEach, type Affected, type Assessed } from './impact-of.ts'
import {
  objectStateOfCluster,
  objectStateOfFiles,
  stateOfCluster,
  stateOfFiles,
  type ObjectState,
  type State,
} from './impact-state.ts'
import { nameOf, readManifests } from './input.ts'
import type { KindSource } from './object-kinds.ts'
import type { Paint } from './paint.ts'
import { causeLine } from './scope.ts'
import type { Cluster, Streams, World } from './world.ts'

export const withoutClusterVms = '; without a cluster: --vms FILE|DIR'

/** The source of existing VMs and objects, and of current presets. */
export interface ImpactSource {
  /** Files or directories; the cluster if absent. */
  readonly files?: readonly string[]
  readonly namespace?: string
  readonly cluster: () => Promise<Cluster>
  readonly kinds: KindSource
  /** Replaces the capabilities of the cluster's nodes. */
  readonly capabilities?: Capabilities
}

export interface ImpactOutput {
  readonly format: 'text' | 'json'
  /** VMs or objects shown for each namespace. */
  readonly limit: number
  readonly quiet: boolean
  readonly paint: Paint
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
 * applied, and likewise the objects of the kinds of other presets. Those that the changed presets do not select are
 * skipped. Writes nothing.
 */
export async function impact(
  paths: readonly string[],
  source: ImpactSource,
  how: ImpactOutput,
  world: Pick<World, 'out' | 'err' | 'stdin'>,
  step: (word: string) => void,
): Promise<ExitCode> {
  const given = await readManifests(paths, world.stdin)
  if (!given.some((one) => isPreset(one) || isObjectPreset(one))) {
    throw new Usage(`${paths.join(', ')}: no preset found`)
  }
  const { files, namespace } = source
  if (files !== undefined) {
    const states = {
      vms: () => stateOfFiles(files, namespace),
      objects: () => objectStateOfFiles(files, namespace),
    }
    return assess(given, states, source, how, world, step)
  }
  const cluster = await source.cluster()
  try {
    const states = {
      vms: () => stateOfCluster(cluster, namespace),
      objects: () => objectStateOfCluster(cluster, namespace),
    }
    return await assess(given, states, source, how, world, step)
  } catch (error) {
    throw clusterFailure(error, cluster, withoutClusterVms)
  } finally {
    await cluster.kube.close()
  }
}

/** Reads what the given presets are about. */
interface States {
  readonly vms: () => Promise<State>
  readonly objects: () => Promise<ObjectState>
}

async function assess(
  given: readonly Manifest[],
  states: States,
  source: ImpactSource,
  how: ImpactOutput,
  streams: Streams,
  step: (word: string) => void,
): Promise<ExitCode> {
  const { files } = source
  const quarantined = new Map<string, QuarantinedPreset>()
  const tallies = new Map<string, Tally>()
  const noun = given.some(isObjectPreset) ? nouns.object : nouns.vm
  for (const assessed of [
    ...(given.some(isPreset) ? [assessVms(given, states, source, quarantined)] : []),
    ...(given.some(isObjectPreset) ? [assessOthers(given, states, source, quarantined)] : []),
  ]) {
    for await (const { namespace, object, affected } of assessed) {
      const tally = tallies.get(namespace) ?? { vms: 0, different: 0, refused: 0, conflicts: 0, freed: 0, shown: [] }
      tallies.set(namespace, tally)
      count(tally, affected, how.limit)
      step(`${namespace}/${nameOf(object)}`)
    }
  }
  for (const { id, causes } of quarantined.values()) streams.err(`${refusalText('preset', id, causes)}\n`)
  if (files !== undefined && tallies.size === 0 && quarantined.size === 0)
    throw new Usage(`${files.join(', ')}: no ${noun.one} found`)
  const sorted = [...tallies].toSorted(([left], [right]) => (left < right ? -1 : 1))
  streams.out(
    how.format === 'json'
      ? `${JSON.stringify(report(sorted, quarantined.size, noun), null, 2)}\n`
      : reportText(sorted, how, noun),
  )
  const isDifferent = sorted.some(([, { different, refused, freed }]) => different + refused + freed > 0)
  return isDifferent || quarantined.size > 0 ? exitCodes.refused : exitCodes.fine
}

/** What is counted, in texts and as a member of the JSON. */
interface Noun {
  readonly one: string
  readonly many: string
  readonly member: string
}

const nouns = {
  vm: { one: 'VM', many: 'VMs', member: 'vms' },
  object: { one: 'object', many: 'objects', member: 'objects' },
} as const satisfies { readonly [key: string]: Noun }

async function* assessVms(
  given: readonly Manifest[],
  states: States,
  { namespace: own = 'default', capabilities }: ImpactSource,
  quarantined: Map<string, QuarantinedPreset>,
): AsyncGenerator<Assessed> {
  const state = await states.vms()
  const alternatives = alternativesOf(given, state, own)
  for (const [id, preset] of alternatives.quarantined) quarantined.set(id, preset)
  yield* assessEach(alternatives, state, own, capabilities)
}

async function* assessOthers(
  given: readonly Manifest[],
  states: States,
  { namespace: own = 'default', kinds }: ImpactSource,
  quarantined: Map<string, QuarantinedPreset>,
): AsyncGenerator<Assessed> {
  const { alternativesOfKinds, assessObjects } = await import('./impact-objects.ts')
  const state = await states.objects()
  for (const alternatives of await alternativesOfKinds(given, state, kinds, own)) {
    for (const [id, preset] of alternatives.quarantined) quarantined.set(`${alternatives.kind.noun} ${id}`, preset)
    yield* assessObjects(alternatives, state, own)
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

const report = (tallies: readonly (readonly [string, Tally])[], brokenPresets: number, noun: Noun) => ({
  total: counted(sum(tallies), noun),
  brokenPresets,
  namespaces: Object.fromEntries(
    tallies.map(([name, { shown, ...counts }]) => [
      name,
      {
        ...counted(counts, noun),
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

const counted = ({ vms, ...counts }: Omit<Tally, 'shown'>, { member }: Noun) => ({ [member]: vms, ...counts })

/** The number of changes that an author will read. */
const maxChanges = 12

function reportText(
  tallies: readonly (readonly [string, Tally])[],
  { paint, quiet }: ImpactOutput,
  noun: Noun,
): string {
  const lines: string[] = []
  for (const [name, tally] of tallies) {
    const affected = tally.different + tally.refused + tally.freed
    if (affected === 0) continue
    lines.push(paint('bold', `${name || 'the cluster'}: ${countsText(tally, noun)}`))
    if (quiet) continue
    for (const one of tally.shown) lines.push(...affectedLines(one, paint).map((line) => `  ${line}`))
    if (affected > tally.shown.length) lines.push(`  and ${affected - tally.shown.length} more`)
  }
  const total = sum(tallies)
  const count = tallies.filter(([name]) => name !== '').length
  const namespaces = `${count} ${count === 1 ? 'namespace' : 'namespaces'}`
  const place = count === tallies.length ? namespaces : count === 0 ? 'the cluster' : `${namespaces} and the cluster`
  return `${[...lines, `${place}: ${countsText(total, noun)}`].join('\n')}\n`
}

function countsText({ vms, different, refused, conflicts, freed }: Omit<Tally, 'shown'>, { one, many }: Noun): string {
  const others = [
    refused > 0 ? `${refused} newly refused${conflicts > 0 ? ` (${conflicts} by a conflict)` : ''}` : '',
    freed > 0 ? `${freed} no longer refused` : '',
  ].filter((text) => text !== '')
  return [`${different} of ${vms} ${vms === 1 ? one : many} would differ`, ...others].join(', ')
}

function affectedLines({ name, changes, causes, isFreed }: Affected, paint: Paint): string[] {
  if (isFreed) return [`${name}: no longer refused`]
  if (causes.length > 0)
    return [`${name}: ${paint('red', 'refused')}`, ...causes.map((cause) => `  * ${causeLine(cause)}`)]
  const rest = changes.length > maxChanges ? [`  and ${changes.length - maxChanges} more`] : []
  return [name, ...changes.slice(0, maxChanges).map((change) => `  ${changeLine(change, paint)}`), ...rest]
}

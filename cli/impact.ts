import type { Cause } from '../api/cause.ts'
import type { Capabilities } from '../api/capabilities.ts'
import { refusalText } from '../api/refusal.ts'
import { isPreset, type Manifest } from '../inventory/manifests.ts'
import { changeLine } from './change.ts'
import { clusterFailure } from './cluster.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { alternativesOf, assessEach, type Affected } from './impact-of.ts'
import { stateOfCluster, stateOfFiles, type State } from './impact-state.ts'
import { nameOf, readManifests } from './input.ts'
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

async function assess(
  given: readonly Manifest[],
  state: State,
  { files, namespace: own = 'default', capabilities }: ImpactSource,
  how: ImpactOutput,
  streams: Streams,
  step: (word: string) => void,
): Promise<ExitCode> {
  const alternatives = alternativesOf(given, state, own)
  const { quarantined } = alternatives
  for (const { id, causes } of quarantined.values()) streams.err(`${refusalText('preset', id, causes)}\n`)
  const tallies = new Map<string, Tally>()
  for await (const { namespace, object, affected } of assessEach(alternatives, state, own, capabilities)) {
    const tally = tallies.get(namespace) ?? { vms: 0, different: 0, refused: 0, conflicts: 0, freed: 0, shown: [] }
    tallies.set(namespace, tally)
    count(tally, affected, how.limit)
    step(`${namespace}/${nameOf(object)}`)
  }
  if (files !== undefined && tallies.size === 0) throw new Usage(`${files.join(', ')}: no VM found`)
  const sorted = [...tallies].toSorted(([left], [right]) => (left < right ? -1 : 1))
  streams.out(
    how.format === 'json' ? `${JSON.stringify(report(sorted, quarantined.size), null, 2)}\n` : reportText(sorted, how),
  )
  const isDifferent = sorted.some(([, { different, refused, freed }]) => different + refused + freed > 0)
  return isDifferent || quarantined.size > 0 ? exitCodes.refused : exitCodes.fine
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

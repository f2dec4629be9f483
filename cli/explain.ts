import { stat } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Origin } from '../api/cause.ts'
import { completedByAnnotation, parseMachine, type VirtualMachine } from '../api/machine.ts'
import { refusalText, shorten } from '../api/refusal.ts'
import { asSent } from '../completion/claim.ts'
import { originOf } from '../completion/origins.ts'
import { decodeProvenance, type Provenance } from '../completion/provenance.ts'
import { isInScope } from '../presets/candidates.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import { excludePresets } from '../presets/exclude.ts'
import { createBudget, type Budget } from '../presets/condition-budget.ts'
import { matchConditions, reviewer } from '../presets/match.ts'
import { requirementText, unmetRequirement, type Labels, type Requirement, type Selector } from '../presets/selector.ts'
import { compareText, layerOf, priorityOf } from '../presets/source.ts'
import { isAtOrBelow } from '../presets/path.ts'
import { isNotFound } from '../runtime/api-error.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { completeInput, uidOf, type CompleteSettings } from './complete.ts'
import { requestOf } from './completion.ts'
import { clusterFailure } from './cluster.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { readInputs } from './input.ts'
import type { Paint } from './paint.ts'
import { creditOf, creditText, leavesOf, type Credit } from './provenance.ts'
import type { Cluster, World } from './world.ts'

export interface ExplainSettings extends CompleteSettings {
  readonly cluster?: Cluster
}

export interface ExplainOutput {
  readonly format: 'text' | 'json'
  readonly paint: Paint | Promise<Paint>
  readonly columns: number
}

/** All that is told of one VM. */
export interface Explanation {
  readonly vm: string
  readonly presets: readonly Considered[]
  readonly fields: readonly Field[]
  readonly removed: readonly (Credit & { readonly path: string })[]
  readonly skipped: readonly (Credit & { readonly path: string; readonly reason: string })[]
  readonly warnings: readonly string[]
  /** Entries of a large VM's provenance that had no room in its annotation. */
  readonly left?: number
}

/** A preset that is there, and what it had to do with the VM. */
export interface Considered {
  readonly preset: string
  readonly layer: string
  readonly priority: number
  readonly outcome: 'applied' | 'warned' | 'audited' | 'no match' | 'excluded' | 'cannot be decided' | 'broken' | 'gone'
  readonly why?: string
}

interface Field extends Credit {
  readonly path: string
  readonly value: unknown
  readonly overridden?: readonly (Credit & { readonly value?: unknown; readonly why: string })[]
}

/**
 * `kubectl vm explain`: for each field of a VM, or those at and below `path`, who set it and who else would have; and of each preset in the VM's
 * scope why it took part or not. A stored VM is explained by its own provenance, a file by completing it.
 */
export async function explain(
  vm: string,
  path: string | undefined,
  settings: ExplainSettings,
  how: ExplainOutput,
  world: Pick<World, 'out' | 'err' | 'stdin'>,
): Promise<ExitCode> {
  if (!(await isFile(vm))) return tell(await explainStored(vm, settings), path, how, world)
  let code: ExitCode = exitCodes.fine
  let isFirst = true
  for await (const found of explainFile(vm, settings, world)) {
    if (!isFirst && how.format === 'text') world.out('\n')
    isFirst = false
    const ends = await tell(found, path, how, world)
    if (ends !== exitCodes.fine) code = ends
  }
  if (isFirst) throw new Usage(`${vm}: holds no VM`)
  return code
}

/** A VM that is refused has no fields; but which presets looked at it, is told. */
interface RefusedVm {
  readonly refusal: string
  readonly presets: readonly Considered[]
}

async function tell(
  found: Explanation | RefusedVm,
  path: string | undefined,
  { format, paint, columns }: ExplainOutput,
  world: Pick<World, 'out' | 'err'>,
): Promise<ExitCode> {
  if ('refusal' in found) {
    world.err(`${found.refusal}\n`)
    world.out(
      format === 'json'
        ? `${JSON.stringify({ presets: found.presets }, null, 2)}\n`
        : presetLines(found.presets, await paint).join(''),
    )
    return exitCodes.refused
  }
  const explanation = path === undefined ? found : below(found, path)
  if (path !== undefined && explanation.fields.length + explanation.removed.length + explanation.skipped.length === 0) {
    world.err(`error: nothing is at ${path}\n`)
    return exitCodes.refused
  }
  world.out(
    format === 'json'
      ? `${JSON.stringify(explanation, null, 2)}\n`
      : explanationText(explanation, await paint, columns),
  )
  return exitCodes.fine
}

async function isFile(vm: string): Promise<boolean> {
  if (vm === '-') return true
  const isThere = await stat(vm).then(
    () => true,
    () => false,
  )
  if (!isThere && /\.(ya?ml|json|xml)$/i.test(vm)) throw new Usage(`${vm}: no such file`)
  return isThere
}

async function* explainFile(
  file: string,
  settings: ExplainSettings,
  { stdin }: Pick<World, 'stdin'>,
): AsyncGenerator<Explanation | RefusedVm> {
  for await (const input of readInputs([file], stdin)) {
    if (input.kind === 'unreadable') throw new Usage(input.message)
    const done = await completeInput(input, settings)
    if (done === undefined) continue
    const { subject, outcome } = done
    const machine = 'machine' in subject.parsed ? subject.parsed.machine : undefined
    const presets =
      machine === undefined
        ? []
        : await considered(machine, settings, { uid: uidOf(settings, input.file, subject.name), isNew: true })
    if (outcome.outcome === 'refused') {
      yield { refusal: refusalText(subject.kind, subject.name, outcome.causes), presets }
    } else {
      const { machine: completed, warnings } = outcome
      yield explanationOf(completed, outcome, presets, await ranksIn(completed, settings), warnings)
    }
  }
}

async function explainStored(vm: string, settings: ExplainSettings): Promise<Explanation> {
  const { cluster } = settings
  if (cluster === undefined) throw new Usage(`${vm}: no such file, and without a cluster there is no VM "${vm}"`)
  const [first = '', second] = vm.replace(/^(?:vm|vms|virtualmachines?)\//, '').split('/')
  const ref = second === undefined ? { namespace: settings.namespace, name: first } : { namespace: first, name: second }
  const stored = await cluster.kube.get(virtualMachines, ref).catch((error: unknown) => {
    if (isNotFound(error))
      throw new Usage(`there is no VM "${ref.name}" in namespace "${ref.namespace}" of ${cluster.server}`)
    throw clusterFailure(error, cluster)
  })
  const provenance = decodeProvenance(stored.metadata.annotations?.[completedByAnnotation] ?? '')
  if (provenance === undefined) throw new Usage(`VM "${ref.name}" was never completed: it says nothing of who set what`)
  const parsed = parseMachine(stored)
  const written = 'machine' in parsed ? asSent(parsed.machine, provenance) : stored
  const presets = await considered(written, settings, { uid: stored.metadata.uid, isNew: false })
  const revisions = new Map([...presetsIn(provenance)].map((origin) => [idOf(origin), origin.revision]))
  const told = presets.map((one) => atRevision(one, revisions))
  const gone = [...revisions.keys()]
    .filter((id) => !presets.some(({ preset }) => preset === id))
    .map((preset): Considered => ({
      preset,
      layer: '',
      priority: 0,
      outcome: 'gone',
      why: 'took part, and was deleted since',
    }))
  const explanation = explanationOf(stored, provenance, [...told, ...gone], await ranksIn(stored, settings), [])
  return provenance.left > 0 ? { ...explanation, left: provenance.left } : explanation
}

type PresetOrigin = Origin & { readonly by: 'preset' }

function* presetsIn({ origins, overridden, removed, skipped }: Provenance): Generator<PresetOrigin> {
  const lost = [...overridden.values()].flat()
  for (const origin of [...origins.values(), ...removed.values(), ...[...lost, ...skipped].map((one) => one.origin)]) {
    if (origin.by === 'preset') yield origin
  }
}

const idOf = ({ namespace, name }: PresetOrigin): string => (namespace === undefined ? name : `${namespace}/${name}`)

/** A preset that took part did so, whatever its conditions would say today; it may have been changed since. */
function atRevision(one: Considered & { readonly revision?: string }, then: ReadonlyMap<string, string>): Considered {
  const { revision, ...now } = one
  const was = then.get(one.preset)
  if (was === undefined) return now
  const { why: _, ...known } = now
  if (was === revision) return { ...known, outcome: 'applied' }
  const today = [now.outcome, ...(now.why === undefined ? [] : [now.why])].join(', ')
  return { ...known, outcome: 'applied', why: `at revision ${was}; it is ${revision} now: ${today}` }
}

/**
 * Every preset in the scope of a VM as its user wrote it, strongest first.
 * @param isNew it is made now and by the caller; who made one that is stored, nobody knows any more
 */
async function considered(
  machine: VirtualMachine,
  settings: ExplainSettings,
  { uid, isNew }: { readonly uid: string; readonly isNew: boolean },
): Promise<readonly (Considered & { readonly revision?: string })[]> {
  const name = machine.metadata.namespace ?? settings.namespace
  const { inventory, userInfo, ...scope } = await settings.scopes.of(name)
  const exempt = (await scope.exempt(machine)) ?? new Set<string>()
  const namespace = inventory.namespace(name)
  const all = inventory.candidates
    .inScope(namespace)
    .toSorted((left, right) => right.rank - left.rank || compareText(left.id, right.id))
  const labels = machine.metadata.labels ?? {}
  const selected = inventory.candidates.select(labels, namespace)
  const { excluded } = excludePresets(machine.metadata.annotations, selected, exempt)
  const budget = createBudget()
  const review = reviewer(machine, namespace, requestOf(machine, namespace.name, uid, isNew ? userInfo : undefined))
  return [
    ...all.map((preset) => ({
      ...consider(preset, labels, excluded, review, budget),
      revision: preset.origin.revision,
    })),
    ...[...inventory.quarantined.values()]
      .filter((preset) => isInScope(preset, namespace))
      .map(({ id, causes }): Considered => ({
        preset: id,
        layer: '',
        priority: 0,
        outcome: 'broken',
        why: causes.map(({ field, message }) => `${field}: ${message}`).join('; '),
      })),
  ]
}

function consider(
  preset: CompiledPreset,
  labels: Labels,
  excluded: readonly CompiledPreset[],
  review: ReturnType<typeof reviewer>,
  budget: Budget,
): Considered {
  const { id, rank, mode } = preset
  const known = { preset: id, layer: layerOf(rank), priority: priorityOf(rank) }
  const unmet = unmetBy(preset.selector, labels)
  if (unmet !== undefined) return { ...known, outcome: 'no match', why: `selector ${unmet}` }
  if (excluded.includes(preset))
    return { ...known, outcome: 'excluded', why: 'by the annotation virtset.io/exclude-presets' }
  const match = matchConditions(preset, review, budget)
  if (match.outcome === 'unmet')
    return { ...known, outcome: 'no match', why: `condition "${match.condition}" is false` }
  if (match.outcome === 'failed') {
    return { ...known, outcome: 'cannot be decided', why: `condition "${match.condition}": ${match.error}` }
  }
  if (mode === 'Apply') return { ...known, outcome: 'applied' }
  return { ...known, outcome: mode === 'Warn' ? 'warned' : 'audited', why: `mode ${mode} changes nothing` }
}

function unmetBy(selector: Selector, labels: Labels): string | undefined {
  const unmet = unmetRequirement(selector, labels)
  return unmet === undefined ? undefined : `${requirementText(unmet)}, ${hasText(unmet, labels)}`
}

const hasText = ({ key }: Requirement, labels: Labels): string =>
  labels[key] === undefined ? `and the VM has no label ${key}` : `and the VM has ${key}=${labels[key]}`

/** The rank of each preset that is still there, to tell why one won over another. */
async function ranksIn(
  { metadata }: VirtualMachine,
  settings: ExplainSettings,
): Promise<(origin: Origin) => number | undefined> {
  const { inventory } = await settings.scopes.of(metadata.namespace ?? settings.namespace)
  return (origin) => (origin.by === 'preset' ? inventory.candidates.get(idOf(origin))?.rank : undefined)
}

function explanationOf(
  machine: VirtualMachine,
  provenance: Provenance,
  presets: readonly Considered[],
  rankOf: (origin: Origin) => number | undefined,
  warnings: readonly string[],
): Explanation {
  const { origins, overridden, removed, skipped } = provenance
  const fields = [...leavesOf(machine)].map(({ path, value }): Field => {
    const origin = originOf(origins, path)
    const lost = overridden.get(path)?.map((one) => ({
      ...creditOf(one.origin),
      ...(one.value === undefined ? {} : { value: one.value }),
      why: whyLost(origin, one.origin, one.value !== undefined && isDeepStrictEqual(one.value, value), rankOf),
    }))
    return { path, value, ...creditOf(origin), ...(lost === undefined ? {} : { overridden: lost }) }
  })
  return {
    vm: `${machine.metadata.namespace ?? ''}/${machine.metadata.name ?? `${machine.metadata.generateName ?? ''}*`}`,
    presets: presets.map(({ preset, layer, priority, outcome, why }) => ({
      preset,
      layer,
      priority,
      outcome,
      ...(why === undefined ? {} : { why }),
    })),
    fields,
    removed: [...removed].map(([path, origin]) => ({ path, ...creditOf(origin) })),
    skipped: skipped.map(({ path, origin, reason }) => ({ path, ...creditOf(origin), reason })),
    warnings,
  }
}

/** How it was settled who has a field: by who the two are, their layers, or their priorities in one layer. */
function whyLost(
  winner: Origin,
  loser: Origin,
  isEqual: boolean,
  rankOf: (origin: Origin) => number | undefined,
): string {
  if (isEqual) return 'says the same'
  if (winner.by === 'user') return 'the user wins over defaults'
  if (loser.by === 'user') return 'what is enforced wins over the user'
  const [won, lost] = [rankOf(winner), rankOf(loser)]
  if (won === undefined || lost === undefined) return 'was weaker'
  if (layerOf(won) !== layerOf(lost)) return `${layerOf(won)} wins over ${layerOf(lost)}`
  return `priority ${priorityOf(won)} wins over ${priorityOf(lost)}`
}

function below(explanation: Explanation, path: string): Explanation {
  const isBelow = (one: { readonly path: string }): boolean => isAtOrBelow(one.path, path)
  const { fields, removed, skipped } = explanation
  return {
    ...explanation,
    fields: fields.filter(isBelow),
    removed: removed.filter(isBelow),
    skipped: skipped.filter(isBelow),
  }
}

function explanationText(explanation: Explanation, paint: Paint, columns: number): string {
  const { vm, presets, fields, removed, skipped, warnings, left } = explanation
  const pathWidth = Math.min(Math.max(0, ...fields.map(({ path }) => path.length)), Math.max(40, columns - 40))
  const lines = [
    `${paint('bold', `VirtualMachine ${vm}`)}\n\n`,
    ...presetLines(presets, paint),
    `\n${paint('bold', 'Fields')}\n`,
    ...fields.flatMap((field) => fieldLines(field, pathWidth, paint)),
    ...section('Removed', removed, paint, ({ path, ...credit }) => `${path}  by ${creditText(credit)}`),
    ...section(
      'Left out',
      skipped,
      paint,
      ({ path, reason, ...credit }) => `${path}  of ${creditText(credit)}: ${reason}`,
    ),
    ...section('Warnings', warnings, paint, (text) => text),
    ...(left === undefined ? [] : [`\n${left} more fields had no room in the VM's provenance\n`]),
  ]
  return lines.join('')
}

function presetLines(presets: readonly Considered[], paint: Paint): string[] {
  if (presets.length === 0) return ['No preset is in scope.\n']
  const widths = [0, 0].map((_, at) =>
    Math.max(...presets.map(({ preset, layer }) => [preset, layer][at]?.length ?? 0)),
  )
  const isApplied = ({ outcome }: Considered): boolean => outcome === 'applied'
  return [
    `${paint('bold', 'Presets, strongest first')}\n`,
    ...presets.map((one) => {
      const { preset, layer, priority, outcome, why } = one
      const outcomeText = isApplied(one) ? paint('green', outcome) : paint('dim', outcome)
      const head = `  ${preset.padEnd(widths[0] ?? 0)}  ${layer.padEnd(widths[1] ?? 0)}  ${String(priority).padStart(4)}`
      return `${head}  ${outcomeText}${why === undefined ? '' : `: ${why}`}\n`
    }),
  ]
}

const valueWidth = 40

function fieldLines({ path, value, overridden = [], ...credit }: Field, width: number, paint: Paint): string[] {
  const text = shorten(JSON.stringify(value), valueWidth)
  const by = creditText(credit)
  return [
    `  ${path.padEnd(width)}  ${text.padEnd(12)}  ${credit.user === true ? by : paint('cyan', by)}\n`,
    ...overridden.map((lost) => {
      const said = lost.value === undefined ? '' : ` said ${shorten(JSON.stringify(lost.value), valueWidth)}`
      return paint('dim', `  ${' '.repeat(Math.min(width, 8))}${creditText(lost)}${said}: ${lost.why}\n`)
    }),
  ]
}

const section = <T>(title: string, items: readonly T[], paint: Paint, text: (item: T) => string): string[] =>
  items.length === 0 ? [] : [`\n${paint('bold', title)}\n`, ...items.map((item) => `  ${text(item)}\n`)]

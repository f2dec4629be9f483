import { stat } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Origin } from '../api/cause.ts'
import { completedByAnnotation, parseVirtualMachine, type VirtualMachine } from '../api/virtual-machine.ts'
import { refusalText } from '../api/refusal.ts'
import { shorten } from '../api/shorten.ts'
import { asSent } from '../completion/claim.ts'
import { originOf } from '../completion/origins.ts'
import { decodeProvenance, type Provenance } from '../completion/provenance.ts'
import { isInScope } from '../presets/candidates.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import { excludePresets } from '../presets/exclude.ts'
import { createBudget, type Budget } from '../presets/condition-budget.ts'
import { matchConditions, conditionInput } from '../presets/match.ts'
import { requirementText, unmetRequirement, type Labels, type Requirement, type Selector } from '../presets/selector.ts'
import { compareText, layerOf, priorityOf } from '../presets/source.ts'
import { isAtOrBelow } from '../api/path.ts'
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

/** The output for one VM. */
export interface Explanation {
  readonly vm: string
  readonly presets: readonly Considered[]
  readonly fields: readonly Field[]
  readonly removed: readonly (Credit & { readonly path: string })[]
  readonly skipped: readonly (Credit & { readonly path: string; readonly reason: string })[]
  readonly warnings: readonly string[]
  /** Entries of a large VM's provenance that did not fit in its annotation. */
  readonly left?: number
}

/** A preset in scope, and its effect on the VM. */
export interface Considered {
  readonly preset: string
  readonly layer: string
  readonly priority: number
  readonly outcome: 'applied' | 'warned' | 'audited' | 'no match' | 'excluded' | 'undecided' | 'broken' | 'deleted'
  readonly why?: string
}

interface Field extends Credit {
  readonly path: string
  readonly value: unknown
  readonly overridden?: readonly (Credit & { readonly value?: unknown; readonly why: string })[]
}

/**
 * `kubectl vm explain`: for each field of a VM, or those at and below `path`, its origin and the values that it
 * overrode; for each preset in scope, why it was applied or not. A stored VM is explained by its provenance, a file by
 * completing it.
 */
export async function explain(
  vm: string,
  path: string | undefined,
  settings: ExplainSettings,
  how: ExplainOutput,
  world: Pick<World, 'out' | 'err' | 'stdin'>,
): Promise<ExitCode> {
  if (!(await isFile(vm))) return print(await explainStored(vm, settings), path, how, world)
  let code: ExitCode = exitCodes.fine
  let isFirst = true
  for await (const found of explainFile(vm, settings, world)) {
    if (!isFirst && how.format === 'text') world.out('\n')
    isFirst = false
    const exit = await print(found, path, how, world)
    if (exit !== exitCodes.fine) code = exit
  }
  if (isFirst) throw new Usage(`${vm}: has no VM`)
  return code
}

/** A refused VM has no fields, only presets in scope. */
interface RefusedVm {
  readonly refusal: string
  readonly presets: readonly Considered[]
}

async function print(
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
    world.err(`error: the VM has no field ${path}\n`)
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
    const vm = 'vm' in subject.parsed ? subject.parsed.vm : undefined
    const presets =
      vm === undefined
        ? []
        : await considered(vm, settings, { uid: uidOf(settings, input.file, subject.name), isNew: true })
    if (outcome.outcome === 'refused') {
      yield { refusal: refusalText(subject.kind, subject.name, outcome.causes), presets }
    } else {
      const { vm: completed, warnings } = outcome
      yield explanationOf(completed, outcome, presets, await ranksIn(completed, settings), warnings)
    }
  }
}

async function explainStored(vm: string, settings: ExplainSettings): Promise<Explanation> {
  const { cluster } = settings
  if (cluster === undefined) throw new Usage(`${vm}: no such file; a VM of this name requires a cluster`)
  const [first = '', second] = vm.replace(/^(?:vm|vms|virtualmachines?)\//, '').split('/')
  const ref = second === undefined ? { namespace: settings.namespace, name: first } : { namespace: first, name: second }
  const stored = await cluster.kube.get(virtualMachines, ref).catch((error: unknown) => {
    if (isNotFound(error))
      throw new Usage(`VM "${ref.name}" not found in namespace "${ref.namespace}" of ${cluster.server}`)
    throw clusterFailure(error, cluster)
  })
  const provenance = decodeProvenance(stored.metadata.annotations?.[completedByAnnotation] ?? '')
  if (provenance === undefined) throw new Usage(`VM "${ref.name}" was never completed: it has no provenance`)
  const parsed = parseVirtualMachine(stored)
  const written = 'vm' in parsed ? asSent(parsed.vm, provenance) : stored
  const presets = await considered(written, settings, { uid: stored.metadata.uid, isNew: false })
  const revisions = new Map([...presetsIn(provenance)].map((origin) => [idOf(origin), origin.revision]))
  const current = presets.map((one) => atRevision(one, revisions))
  const deleted = [...revisions.keys()]
    .filter((id) => !presets.some(({ preset }) => preset === id))
    .map((preset): Considered => ({
      preset,
      layer: '',
      priority: 0,
      outcome: 'deleted',
      why: 'was applied and has been deleted since',
    }))
  const explanation = explanationOf(stored, provenance, [...current, ...deleted], await ranksIn(stored, settings), [])
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

/** An applied preset stays applied, whatever its conditions are now; it may have been changed since. */
function atRevision(one: Considered & { readonly revision?: string }, then: ReadonlyMap<string, string>): Considered {
  const { revision, ...now } = one
  const was = then.get(one.preset)
  if (was === undefined) return now
  const { why: _, ...known } = now
  if (was === revision) return { ...known, outcome: 'applied' }
  const current = [now.outcome, ...(now.why === undefined ? [] : [now.why])].join(', ')
  return { ...known, outcome: 'applied', why: `at revision ${was}; now at ${revision}: ${current}` }
}

/**
 * Every preset in the scope of a VM as its user wrote it, strongest first.
 * @param isNew whether the current user creates it now; the creator of a stored VM is unknown
 */
async function considered(
  vm: VirtualMachine,
  settings: ExplainSettings,
  { uid, isNew }: { readonly uid: string; readonly isNew: boolean },
): Promise<readonly (Considered & { readonly revision?: string })[]> {
  const name = vm.metadata.namespace ?? settings.namespace
  const { inventory, userInfo, ...scope } = await settings.scopes.of(name)
  const exempt = (await scope.exempt(vm)) ?? new Set<string>()
  const namespace = inventory.namespace(name)
  const all = inventory.candidates
    .inScope(namespace)
    .toSorted((left, right) => right.rank - left.rank || compareText(left.id, right.id))
  const labels = vm.metadata.labels ?? {}
  const selected = inventory.candidates.select(labels, namespace)
  const { excluded } = excludePresets(vm.metadata.annotations, selected, exempt)
  const budget = createBudget()
  const input = conditionInput(vm, namespace, requestOf(vm, namespace.name, uid, isNew ? userInfo : undefined))
  return [
    ...all.map((preset) => ({
      ...consider(preset, labels, excluded, input, budget),
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
  input: ReturnType<typeof conditionInput>,
  budget: Budget,
): Considered {
  const { id, rank, mode } = preset
  const known = { preset: id, layer: layerOf(rank), priority: priorityOf(rank) }
  const unmet = unmetBy(preset.selector, labels)
  if (unmet !== undefined) return { ...known, outcome: 'no match', why: `selector ${unmet}` }
  if (excluded.includes(preset))
    return { ...known, outcome: 'excluded', why: 'by the annotation virtset.io/exclude-presets' }
  const match = matchConditions(preset, input, budget)
  if (match.outcome === 'unmet')
    return { ...known, outcome: 'no match', why: `condition "${match.condition}" is false` }
  if (match.outcome === 'failed') {
    return { ...known, outcome: 'undecided', why: `condition "${match.condition}": ${match.error}` }
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

/** The rank of each preset that still exists, to explain why one won over another. */
async function ranksIn(
  { metadata }: VirtualMachine,
  settings: ExplainSettings,
): Promise<(origin: Origin) => number | undefined> {
  const { inventory } = await settings.scopes.of(metadata.namespace ?? settings.namespace)
  return (origin) => (origin.by === 'preset' ? inventory.candidates.get(idOf(origin))?.rank : undefined)
}

function explanationOf(
  vm: VirtualMachine,
  provenance: Provenance,
  presets: readonly Considered[],
  rankOf: (origin: Origin) => number | undefined,
  warnings: readonly string[],
): Explanation {
  const { origins, overridden, removed, skipped } = provenance
  const fields = [...leavesOf(vm)].map(({ path, value }): Field => {
    const origin = originOf(origins, path)
    const lost = overridden.get(path)?.map((one) => ({
      ...creditOf(one.origin),
      ...(one.value === undefined ? {} : { value: one.value }),
      why: whyLost(origin, one.origin, one.value !== undefined && isDeepStrictEqual(one.value, value), rankOf),
    }))
    return { path, value, ...creditOf(origin), ...(lost === undefined ? {} : { overridden: lost }) }
  })
  return {
    vm: `${vm.metadata.namespace ?? ''}/${vm.metadata.name ?? `${vm.metadata.generateName ?? ''}*`}`,
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

/** Why the winner has the field: the kinds of the two origins, their layers, or their priorities in one layer. */
function whyLost(
  winner: Origin,
  loser: Origin,
  isEqual: boolean,
  rankOf: (origin: Origin) => number | undefined,
): string {
  if (isEqual) return 'has the same value'
  if (winner.by === 'user') return 'the user wins over defaults'
  if (loser.by === 'user') return 'enforced presets win over the user'
  const [won, lost] = [rankOf(winner), rankOf(loser)]
  if (won === undefined || lost === undefined) return 'had less priority'
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
      'Skipped',
      skipped,
      paint,
      ({ path, reason, ...credit }) => `${path}  from ${creditText(credit)}: ${reason}`,
    ),
    ...section('Warnings', warnings, paint, (text) => text),
    ...(left === undefined ? [] : [`\n${left} more fields did not fit in the VM's provenance\n`]),
  ]
  return lines.join('')
}

function presetLines(presets: readonly Considered[], paint: Paint): string[] {
  if (presets.length === 0) return ['No preset in scope.\n']
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
      const other = lost.value === undefined ? '' : ` set ${shorten(JSON.stringify(lost.value), valueWidth)}`
      return paint('dim', `  ${' '.repeat(Math.min(width, 8))}${creditText(lost)}${other}: ${lost.why}\n`)
    }),
  ]
}

const section = <T>(title: string, items: readonly T[], paint: Paint, text: (item: T) => string): string[] =>
  items.length === 0 ? [] : [`\n${paint('bold', title)}\n`, ...items.map((item) => `  ${text(item)}\n`)]

import { stat } from 'node:fs/promises'
import { refusalText } from '../api/refusal.ts'
import { completedByAnnotation, parseVirtualMachine, type VirtualMachine } from '../api/virtual-machine.ts'
import { asSent } from '../completion/reproduce.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import { isNotFound } from '../runtime/api-error.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { completeInput, uidOf, type Outcome, type VmSettings } from './complete.ts'
import { considered, type Considered } from './considered.ts'
import { errorLine } from './error-line.ts'
import { below, explanationOf, type Explanation, type ExplainSettings, type RefusedObject } from './explanation.ts'
import { explanationText, presetLines } from './explanation-text.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { readInputs, type Input } from './input.ts'
import { isForeign } from './foreign.ts'
import type { Paint } from './paint.ts'
import { explanationOfStored, ranksAmong } from './stored-explanation.ts'
import type { World } from './world.ts'

type StoredSettings = Pick<ExplainSettings, 'cluster' | 'namespace' | 'scopes'>

export interface ExplainOutput {
  readonly format: 'text' | 'json'
  readonly paint: Paint | Promise<Paint>
  readonly columns: number
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
  if (!(await isFile(vm))) {
    const { explainStoredObject } = await import('./explain-object.ts')
    return print((await explainStoredObject(vm, settings)) ?? (await explainStored(vm, settings)), path, how, world)
  }
  let code: ExitCode = exitCodes.fine
  let isFirst = true
  for await (const found of explainFile(vm, settings, world)) {
    if (!isFirst && how.format === 'text') world.out('\n')
    isFirst = false
    const exit = await print(found, path, how, world)
    if (exit !== exitCodes.fine) code = exit
  }
  if (isFirst) throw new Usage(`${vm}: has nothing to explain`)
  return code
}

async function print(
  found: Explanation | RefusedObject,
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
    world.err(errorLine(`the ${nounOf(found)} has no field ${path}`))
    return exitCodes.refused
  }
  world.out(
    format === 'json'
      ? `${JSON.stringify(explanation, null, 2)}\n`
      : explanationText(explanation, await paint, columns),
  )
  return exitCodes.fine
}

const nounOf = (found: Explanation): string => ('vm' in found ? 'VM' : (found.object.split(' ')[0] ?? ''))

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
): AsyncGenerator<Explanation | RefusedObject> {
  for await (const input of readInputs([file], stdin)) {
    if (input.kind === 'unreadable') throw new Usage(input.message)
    const ofOther = await explainObject(input, settings)
    if (ofOther !== undefined) {
      yield ofOther
      continue
    }
    const explained = await explainInput(input, settings)
    if (explained === undefined) continue
    const { subject, outcome, presets } = explained
    if (outcome.outcome === 'refused') {
      yield { refusal: refusalText(subject.kind, subject.name, outcome.causes), presets }
    } else {
      yield explanationOf(outcome.vm, outcome, presets, await ranksIn(outcome.vm, settings), outcome.warnings)
    }
  }
}

/** Undefined for an input of virtset's own kinds. */
async function explainObject(input: Input, settings: ExplainSettings) {
  if (input.kind !== 'manifest' || !isForeign(input.object)) return undefined
  return (await import('./explain-object.ts')).explainManifest(input.object, settings)
}

/** The outcome of completing an input, and the presets in the scope of its VM. Undefined for a preset. */
export async function explainInput(
  input: Exclude<Input, { kind: 'unreadable' }>,
  settings: VmSettings,
): Promise<(Outcome & { readonly presets: readonly Considered[] }) | undefined> {
  const done = await completeInput(input, settings)
  if (done === undefined) return undefined
  const { parsed, name } = done.subject
  if ('causes' in parsed) return { ...done, presets: [] }
  const uid = uidOf(settings, input.file, name)
  return { ...done, presets: await considered(parsed.vm, settings, { uid, isNew: true }) }
}

/** @param vm NAME or NAMESPACE/NAME. @throws Usage */
export async function explainStored(vm: string, settings: StoredSettings): Promise<Explanation> {
  const { cluster } = settings
  if (cluster === undefined) throw new Usage(`${vm}: no such file; a VM of this name requires a cluster`)
  const [first = '', second] = vm.replace(/^(?:vm|vms|virtualmachines?)\//, '').split('/')
  const ref = second === undefined ? { namespace: settings.namespace, name: first } : { namespace: first, name: second }
  const stored = await cluster.kube.get(virtualMachines, ref).catch((error: unknown) => {
    if (isNotFound(error))
      throw new Usage(`VM "${ref.name}" not found in namespace "${ref.namespace}" of ${cluster.server}`)
    throw error
  })
  const provenance = decodeProvenance(stored.metadata.annotations?.[completedByAnnotation] ?? '')
  if (provenance === undefined) throw new Usage(`VM "${ref.name}" was never completed: it has no provenance`)
  const parsed = parseVirtualMachine(stored)
  const written = 'vm' in parsed ? asSent(parsed.vm, provenance) : stored
  const presets = await considered(written, settings, { uid: stored.metadata.uid, isNew: false })
  return explanationOfStored(stored, provenance, presets, await ranksIn(stored, settings))
}

/** The rank of each preset in the scope of a VM. */
export async function ranksIn({ metadata }: VirtualMachine, settings: Pick<VmSettings, 'namespace' | 'scopes'>) {
  const { inventory } = await settings.scopes.of(metadata.namespace ?? settings.namespace)
  return ranksAmong(inventory.candidates)
}

import { validPartOf, type VirtualMachine } from '../api/virtual-machine.ts'
import { refusalText } from '../api/refusal.ts'
import type { Completed, Refused } from '../completion/complete.ts'
import { yamlWithProvenance } from './annotated.ts'
import { completeAsAdmission } from './completion.ts'
import { derivedUid } from './derive-uid.ts'
import { errorLine, warningLine } from './error-line.ts'
import { exitCode, Usage, type ExitCode } from './failure.ts'
import { isForeign } from './foreign.ts'
import { nameOf, unreadableText, type Input } from './input.ts'
import { orderedAs } from './key-order.ts'
import type { ObjectScopes } from './object-scope.ts'
import type { Output } from './output.ts'
import { provenanceEntries } from './provenance.ts'
import { causesAt, subjectOf, type Subject } from './subject.ts'
import type { Scopes } from './scope.ts'
import type { Streams } from './world.ts'
import { toYaml } from '../api/yaml.ts'
import type { Cause } from '../api/cause.ts'
import type { Subject as MergedObject } from '../presets/kind.ts'
import type { Provenance } from '../presets/origins.ts'

/** What a VM is completed with. */
export interface VmSettings {
  readonly scopes: Scopes
  readonly namespace: string
  /** The request's UID; if absent, each input has its own. */
  readonly uid?: string
  readonly allowHostReach: boolean
  readonly skipRules: boolean
}

export interface CompleteSettings extends VmSettings {
  readonly objects: ObjectScopes
}

export interface CompleteOutput {
  readonly format: 'yaml' | 'json' | 'xml'
  readonly provenance: boolean
  readonly strict: boolean
  readonly quiet: boolean
}

export const uidOf = ({ uid }: Pick<CompleteSettings, 'uid'>, file: string, name: string): string =>
  uid ?? derivedUid(file, name)

/** The result for one input. */
export interface Outcome {
  readonly subject: Subject
  readonly outcome: Completed | Pick<Refused, 'outcome' | 'causes' | 'warnings'>
}

/** Completes the VM of an input as admission would. Undefined for a preset. */
export async function completeInput(
  input: Exclude<Input, { kind: 'unreadable' }>,
  settings: VmSettings,
): Promise<Outcome | undefined> {
  const subject = await subjectOf(input, settings.namespace)
  if (subject === undefined) return undefined
  const { parsed, prefix, name } = subject
  const complete = async (vm: VirtualMachine, without: readonly string[]) => {
    const namespace = vm.metadata.namespace ?? settings.namespace
    const { allowHostReach, skipRules } = settings
    const isStored = input.kind === 'xml'
    return completeAsAdmission(vm, namespace, await settings.scopes.of(namespace), {
      uid: uidOf(settings, input.file, name),
      allowHostReach,
      skipRules,
      isStored,
      without,
    })
  }
  if ('causes' in parsed) {
    // Also checks the rules in the valid part.
    const rest = prefix === '' ? validPartOf(subject.written) : undefined
    const more = rest && (await complete(rest.vm, rest.without))
    const causes = more?.outcome === 'refused' ? [...parsed.causes, ...more.causes] : parsed.causes
    return { subject, outcome: { outcome: 'refused', causes, warnings: more?.warnings ?? [] } }
  }
  const outcome = await complete(parsed.vm, [])
  return {
    subject,
    outcome:
      outcome.outcome === 'completed'
        ? { ...outcome, vm: orderedAs(subject.written, outcome.vm) }
        : { ...outcome, causes: causesAt(prefix, outcome.causes) },
  }
}

/**
 * `kubectl vm complete`: completes each input and prints or writes the result. Refusals read like the webhook's; a
 * refused or unreadable input does not prevent the others.
 */
export async function completeAll(
  inputs: AsyncIterable<Input>,
  settings: CompleteSettings,
  how: CompleteOutput,
  output: Output,
  streams: Streams,
  step: (word: string) => void,
): Promise<ExitCode> {
  const seen = { unreadable: false, refused: false, warned: false }
  let subjects = 0
  for await (const input of inputs) {
    const done = await attempt(input, settings)
    if ('error' in done) {
      seen.unreadable = true
      streams.err(errorLine(done.error))
    } else if (done.result !== undefined) {
      subjects++
      const { result } = done
      seen.warned ||= result.warnings.length > 0
      seen.refused ||= 'causes' in result
      await report(input.stem, result, how, output, streams)
    }
    step(input.file)
  }
  if (subjects === 0 && !seen.unreadable) {
    streams.err(errorLine('nothing to complete: the input has only presets'))
    seen.unreadable = true
  }
  return exitCode(seen, how.strict)
}

/** What to print for a VM or an object of another kind. */
type Result = { readonly kind: string; readonly name: string; readonly warnings: readonly string[] } & (
  | { readonly causes: readonly Cause[] }
  | (Provenance & { readonly object: MergedObject; readonly asXml: () => Promise<string> })
)

async function attempt(
  input: Input,
  settings: CompleteSettings,
): Promise<{ readonly result: Result | undefined } | { readonly error: string }> {
  if (input.kind === 'unreadable') return { error: input.message }
  try {
    return { result: (await objectResult(input, settings)) ?? vmResult(await completeInput(input, settings)) }
  } catch (error) {
    return { error: unreadableText(error) }
  }
}

/** Undefined for an input of virtset's own kinds. */
async function objectResult(
  input: Exclude<Input, { kind: 'unreadable' }>,
  { objects, namespace }: CompleteSettings,
): Promise<Result | undefined> {
  if (input.kind !== 'manifest' || !isForeign(input.object)) return undefined
  const { completeObject, placeObject } = await import('./objects.ts')
  const placed = await placeObject(input.object, objects, namespace)
  const kind = String(input.object['kind'])
  const known = { kind, name: nameOf(input.object) }
  if ('causes' in placed) return { ...known, ...placed, warnings: [] }
  const { outcome, causes, ...injected } = completeObject(placed)
  if (outcome === 'refused') return { ...known, causes, warnings: injected.warnings }
  const asXml = () => Promise.reject(new Usage(`${input.file}: ${kind} cannot be printed as XML: only VMs can`))
  return { ...known, ...injected, asXml }
}

function vmResult(done: Outcome | undefined): Result | undefined {
  if (done === undefined) return undefined
  const { subject, outcome } = done
  const { kind, name } = subject
  if (outcome.outcome === 'refused') return { kind, name, ...outcome }
  const { vm } = outcome
  return { kind, name, ...outcome, object: vm, asXml: () => xmlOf(vm) }
}

async function report(
  stem: string,
  result: Result,
  how: CompleteOutput,
  output: Output,
  streams: Streams,
): Promise<void> {
  const { kind, name, warnings } = result
  if (!how.quiet) for (const warning of warnings) streams.err(warningLine(warning))
  if (warnings.length > 0) await output.beside(stem, 'warnings', warnings)
  if ('causes' in result) {
    streams.err(`${refusalText(kind, name, result.causes)}\n`)
    await output.beside(stem, 'causes', result.causes)
    return
  }
  const { object } = result
  await output.result(stem, how.format, await render(result, how))
  if (how.provenance) await output.beside(stem, 'provenance', provenanceEntries(object, result))
}

async function render(
  { object, origins, asXml }: Exclude<Result, { readonly causes: unknown }>,
  { format, provenance }: CompleteOutput,
): Promise<string> {
  if (format === 'xml') return asXml()
  if (format === 'json') return `${JSON.stringify(object, null, 2)}\n`
  return provenance ? yamlWithProvenance(object, { origins }) : toYaml(object)
}

async function xmlOf({ spec }: VirtualMachine): Promise<string> {
  const [{ canonical }, { writeDomain }] = await Promise.all([
    import('../api/domain/canonical.ts'),
    import('../api/domain/xml.ts'),
  ])
  return writeDomain(canonical(spec.domain))
}

import { validPartOf, type VirtualMachine } from '../api/virtual-machine.ts'
import { refusalText } from '../api/refusal.ts'
import type { Completed, Refused } from '../completion/complete.ts'
import { yamlWithProvenance } from './annotated.ts'
import { completeAsAdmission } from './completion.ts'
import { derivedUid } from './derive-uid.ts'
import { exitCode, type ExitCode } from './failure.ts'
import { unreadableText, type Input } from './input.ts'
import { orderedAs } from './key-order.ts'
import type { Output } from './output.ts'
import { provenanceEntries } from './provenance.ts'
import { causesAt, subjectOf, type Subject } from './subject.ts'
import type { Scopes } from './scope.ts'
import type { Streams } from './world.ts'
import { toYaml } from '../api/yaml.ts'

export interface CompleteSettings {
  readonly scopes: Scopes
  readonly namespace: string
  /** The request's UID; if absent, each input has its own. */
  readonly uid?: string
  readonly allowHostReach: boolean
  readonly skipRules: boolean
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
  settings: CompleteSettings,
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
      streams.err(`error: ${done.error}\n`)
    } else if (done.outcome !== undefined) {
      subjects++
      const { outcome } = done.outcome
      seen.warned ||= outcome.warnings.length > 0
      seen.refused ||= outcome.outcome === 'refused'
      await report(input.stem, done.outcome, how, output, streams)
    }
    step(input.file)
  }
  if (subjects === 0 && !seen.unreadable) {
    streams.err('error: nothing to complete: the input has only presets\n')
    seen.unreadable = true
  }
  return exitCode(seen, how.strict)
}

async function attempt(
  input: Input,
  settings: CompleteSettings,
): Promise<{ readonly outcome: Outcome | undefined } | { readonly error: string }> {
  if (input.kind === 'unreadable') return { error: input.message }
  try {
    return { outcome: await completeInput(input, settings) }
  } catch (error) {
    return { error: unreadableText(error) }
  }
}

async function report(
  stem: string,
  { subject, outcome }: Outcome,
  how: CompleteOutput,
  output: Output,
  streams: Streams,
): Promise<void> {
  const { warnings } = outcome
  if (!how.quiet) for (const warning of warnings) streams.err(`Warning: ${warning}\n`)
  if (warnings.length > 0) await output.beside(stem, 'warnings', warnings)
  if (outcome.outcome === 'refused') {
    streams.err(`${refusalText(subject.kind, subject.name, outcome.causes)}\n`)
    await output.beside(stem, 'causes', outcome.causes)
    return
  }
  await output.result(stem, how.format, await render(outcome, how))
  if (how.provenance) await output.beside(stem, 'provenance', provenanceEntries(outcome.vm, outcome))
}

async function render(completed: Completed, { format, provenance }: CompleteOutput): Promise<string> {
  const { vm } = completed
  if (format === 'xml') {
    const [{ canonical }, { writeDomain }] = await Promise.all([
      import('../api/domain/canonical.ts'),
      import('../api/domain/xml.ts'),
    ])
    return writeDomain(canonical(vm.spec.domain))
  }
  if (format === 'json') return `${JSON.stringify(vm, null, 2)}\n`
  return provenance ? yamlWithProvenance(vm, completed) : toYaml(vm)
}

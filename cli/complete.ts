import { faultlessMachine, type VirtualMachine } from '../api/machine.ts'
import { refusalText } from '../api/refusal.ts'
import type { Completed, Refused } from '../completion/complete.ts'
import { yamlWithProvenance } from './annotated.ts'
import { completeAsAdmission } from './completion.ts'
import { drawnUid } from './draw.ts'
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
  /** The request's; absent: one of each input's own. */
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
  uid ?? drawnUid(file, name)

/** What became of one input. */
export interface Outcome {
  readonly subject: Subject
  readonly outcome: Completed | Pick<Refused, 'outcome' | 'causes' | 'warnings'>
}

/** Completes what an input is about, as admission would. Undefined for a preset among VMs. */
export async function completeInput(
  input: Exclude<Input, { kind: 'unreadable' }>,
  settings: CompleteSettings,
): Promise<Outcome | undefined> {
  const subject = await subjectOf(input, settings.namespace)
  if (subject === undefined) return undefined
  const { parsed, prefix, name } = subject
  const complete = async (machine: VirtualMachine, without: readonly string[]) => {
    const namespace = machine.metadata.namespace ?? settings.namespace
    const { allowHostReach, skipRules } = settings
    const isStored = input.kind === 'xml'
    return completeAsAdmission(machine, namespace, await settings.scopes.of(namespace), {
      uid: uidOf(settings, input.file, name),
      allowHostReach,
      skipRules,
      isStored,
      without,
    })
  }
  if ('causes' in parsed) {
    // What is wrong beside its faults is told as well.
    const rest = prefix === '' ? faultlessMachine(subject.written) : undefined
    const more = rest && (await complete(rest.machine, rest.without))
    const causes = more?.outcome === 'refused' ? [...parsed.causes, ...more.causes] : parsed.causes
    return { subject, outcome: { outcome: 'refused', causes, warnings: more?.warnings ?? [] } }
  }
  const outcome = await complete(parsed.machine, [])
  return {
    subject,
    outcome:
      outcome.outcome === 'completed'
        ? { ...outcome, machine: orderedAs(subject.written, outcome.machine) }
        : { ...outcome, causes: causesAt(prefix, outcome.causes) },
  }
}

/**
 * `kubectl vm complete`: each input completed, printed or written, and refusals in the words of the webhook; one that is refused or
 * cannot be read does not keep the others from being done.
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
      await tell(input.stem, done.outcome, how, output, streams)
    }
    step(input.file)
  }
  if (subjects === 0 && !seen.unreadable) {
    streams.err('error: there is nothing to complete: only presets\n')
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

async function tell(
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
  if (how.provenance) await output.beside(stem, 'provenance', provenanceEntries(outcome.machine, outcome))
}

async function render(completed: Completed, { format, provenance }: CompleteOutput): Promise<string> {
  const { machine } = completed
  if (format === 'xml') {
    const [{ canonical }, { writeDomain }] = await Promise.all([
      import('../api/domain/canonical.ts'),
      import('../api/domain/xml.ts'),
    ])
    return writeDomain(canonical(machine.spec.domain))
  }
  if (format === 'json') return `${JSON.stringify(machine, null, 2)}\n`
  return provenance ? yamlWithProvenance(machine, completed) : toYaml(machine)
}

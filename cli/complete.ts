import { stringify } from 'yaml'
import type { Cause } from '../api/cause.ts'
import { canonical } from '../api/domain/canonical.ts'
import { validateDomain } from '../api/domain/validate.ts'
import { readDomain, writeDomain } from '../api/domain/xml.ts'
import { parseMachine, type VirtualMachine } from '../api/machine.ts'
import { refusalText } from '../api/refusal.ts'
import { complete, type Completed } from '../completion/complete.ts'
import type { Capabilities } from '../completion/capabilities.ts'
import { exitCodes } from './failure.ts'
import { nameOf, type Input } from './input.ts'
import type { Output, Streams } from './output.ts'
import type { PresetSource } from './presets.ts'
import { provenanceEntries } from './provenance.ts'
import { machineOfDomain } from './machine.ts'
import { yamlWithProvenance } from './yaml.ts'

export interface CompleteSettings {
  readonly format: 'yaml' | 'json' | 'xml'
  readonly presets: PresetSource
  readonly namespace: string
  readonly namespaceLabels: (namespace: string) => { readonly [key: string]: string }
  readonly capabilities: Capabilities
  readonly uid: string
  readonly provenance: boolean
  readonly allowHostReach: boolean
  readonly validate: boolean
  readonly strict: boolean
  readonly quiet: boolean
}

/** What became of one input. */
export type Outcome =
  | Completed
  | { readonly outcome: 'refused'; readonly causes: readonly Cause[]; readonly warnings: readonly string[] }

/**
 * `kubectl vm complete`: each input completed, printed or written, and refusals in the words of the webhook; one that is refused
 * does not keep the others from being done.
 * @returns the exit code
 */
export async function completeAll(
  inputs: AsyncIterable<Input>,
  settings: CompleteSettings,
  output: Output,
  streams: Streams,
  step: (word: string) => void,
): Promise<number> {
  let isRefused = false
  let isWarned = false
  for await (const input of inputs) {
    const read = machineOf(input, settings.namespace)
    const outcome = 'causes' in read ? refused(read.causes) : completeOne(read.machine, settings)
    const name = 'causes' in read ? read.name : nameOf({ ...read.machine })
    isWarned ||= outcome.warnings.length > 0
    if (!settings.quiet) for (const warning of outcome.warnings) streams.err(`Warning: ${warning}\n`)
    if (outcome.warnings.length > 0) await output.beside(input.stem, 'warnings', outcome.warnings)
    if (outcome.outcome === 'refused') {
      isRefused = true
      streams.err(`${refusalText('VirtualMachine', name, outcome.causes)}\n`)
      await output.beside(input.stem, 'causes', outcome.causes)
    } else {
      await output.result(input.stem, settings.format, render(outcome, settings))
      if (settings.provenance) {
        await output.beside(input.stem, 'provenance', provenanceEntries(outcome.machine.spec, 'spec', outcome))
      }
    }
    step(input.file)
  }
  if (isRefused) return exitCodes.refused
  return isWarned && settings.strict ? exitCodes.warnings : exitCodes.fine
}

const refused = (causes: readonly Cause[]): Outcome => ({ outcome: 'refused', causes, warnings: [] })

export function completeOne(machine: VirtualMachine, settings: CompleteSettings): Outcome {
  const namespace = machine.metadata.namespace ?? settings.namespace
  return complete(machine, {
    presets: settings.presets.candidates,
    quarantined: settings.presets.quarantined,
    namespace: { name: namespace, labels: settings.namespaceLabels(namespace) },
    capabilities: settings.capabilities,
    entropy: { uid: settings.uid },
    allowHostReach: settings.allowHostReach,
    skipRules: !settings.validate,
  })
}

function machineOf(
  input: Input,
  namespace: string,
): { readonly machine: VirtualMachine } | { readonly name: string; readonly causes: readonly Cause[] } {
  if (input.kind === 'xml') {
    const read = readDomain(input.xml)
    if ('causes' in read) return { name: input.stem, causes: read.causes }
    const causes = validateDomain(read.domain)
    return causes.length > 0
      ? { name: input.stem, causes }
      : { machine: machineOfDomain(read.domain, input.stem, namespace) }
  }
  const parsed = parseMachine(input.object)
  if ('causes' in parsed) return { name: nameOf(input.object), causes: parsed.causes }
  const { machine } = parsed
  return { machine: { ...machine, metadata: { namespace, ...machine.metadata } } }
}

function render(completed: Completed, { format, provenance }: CompleteSettings): string {
  const { machine } = completed
  if (format === 'xml') return writeDomain(canonical(machine.spec.domain))
  if (format === 'json') return `${JSON.stringify(machine, null, 2)}\n`
  return provenance ? yamlWithProvenance(machine, completed) : stringify(machine, { lineWidth: 0 })
}

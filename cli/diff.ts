import { inOneLine, refusalText } from '../api/refusal.ts'
import { completedByAnnotation, type VirtualMachine } from '../api/virtual-machine.ts'
import { completeInput, type CompleteSettings, type Outcome } from './complete.ts'
import { errorLine, warningLine } from './error-line.ts'
import { exitCode, type ExitCode } from './failure.ts'
import { unreadableText, type Input } from './input.ts'
import { orderedAs } from './key-order.ts'
import { unifiedDiff } from './unified-diff.ts'
import type { Paint } from './paint.ts'
import type { Streams } from './world.ts'
import { toYaml } from '../api/yaml.ts'

/**
 * `kubectl vm diff`: the completion of each VM as `diff -u` of its YAML. As with `kubectl diff`, exit code 1 means a
 * difference. The provenance annotation is omitted, because the diff shows the same.
 */
export async function diffAll(
  inputs: AsyncIterable<Input>,
  settings: CompleteSettings,
  quiet: boolean,
  paint: Paint,
  streams: Streams,
): Promise<ExitCode> {
  const seen = { unreadable: false, refused: false }
  for await (const input of inputs) {
    if (input.kind === 'unreadable') {
      seen.unreadable = true
      streams.err(errorLine(input.message))
      continue
    }
    try {
      const done = await completeInput(input, settings)
      if (done === undefined) continue
      if (!quiet) for (const warning of done.outcome.warnings) streams.err(warningLine(warning))
      const isSame = print(input.file, done, paint, streams)
      seen.refused ||= !isSame
    } catch (error) {
      seen.unreadable = true
      streams.err(errorLine(unreadableText(error)))
    }
  }
  return exitCode(seen)
}

/** @returns whether completion adds nothing */
function print(file: string, { subject, outcome }: Outcome, paint: Paint, streams: Streams): boolean {
  const { parsed, kind, name, written } = subject
  if (outcome.outcome === 'refused' || 'causes' in parsed) {
    const causes = 'causes' in outcome ? outcome.causes : []
    streams.err(`${refusalText(kind, name, causes)}\n`)
    return false
  }
  const names = [inOneLine(`${file} (${kind} ${name})`), 'completed'] as const
  const text = unifiedDiff(names, shown(orderedAs(written, parsed.vm)), shown(outcome.vm), paint)
  streams.out(text)
  return text === ''
}

function shown(vm: VirtualMachine): string {
  const { [completedByAnnotation]: _, ...annotations } = vm.metadata.annotations ?? {}
  const { annotations: _all, ...metadata } = vm.metadata
  const hasAnnotations = Object.keys(annotations).length > 0
  return toYaml({ ...vm, metadata: hasAnnotations ? { ...metadata, annotations } : metadata })
}

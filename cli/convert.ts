import type { Cause } from '../api/cause.ts'
import type { Domain } from '../api/domain/domain.ts'
import { readDomain, writeDomain } from '../api/domain/xml.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { refusalText } from '../api/refusal.ts'
import { errorLine } from './error-line.ts'
import { Usage, exitCode, type ExitCode } from './failure.ts'
import { unreadableText, type Input } from './input.ts'
import { vmOfDomain } from './domain-vm.ts'
import type { Output } from './output.ts'
import { subjectOf } from './subject.ts'
import type { Streams } from './world.ts'
import { toYaml } from '../api/yaml.ts'

type Readable = Exclude<Input, { kind: 'unreadable' }>

/** `kubectl vm import`: Domain XML → VM. An unknown element is an error that names it; nothing is dropped. */
export function importAll(
  inputs: AsyncIterable<Input>,
  format: 'yaml' | 'json',
  output: Output,
  streams: Streams,
  step: (word: string) => void,
): Promise<ExitCode> {
  return convertAll(inputs, output, streams, step, async (input) => {
    if (input.kind !== 'xml') throw new Usage(`${input.file}: is a manifest; import reads libvirt's Domain XML`)
    const read = readDomain(input.xml)
    if ('causes' in read) return { kind: 'VirtualMachine', name: input.stem, causes: read.causes }
    const vm = vmOfDomain(read.domain, input.stem)
    return { extension: format, text: format === 'json' ? `${JSON.stringify(vm, null, 2)}\n` : toYaml(vm) }
  })
}

/** `kubectl vm export`: VM → Domain XML in the user's own spelling; only the name is added. */
export function exportAll(
  inputs: AsyncIterable<Input>,
  output: Output,
  streams: Streams,
  step: (word: string) => void,
): Promise<ExitCode> {
  return convertAll(inputs, output, streams, step, async (input) => {
    if (input.kind === 'xml') throw new Usage(`${input.file}: is XML; export reads manifests of VMs`)
    const subject = await subjectOf(input, 'default')
    if (subject === undefined) throw new Usage(`${input.file}: is a preset; export reads VMs`)
    const { kind, name, parsed } = subject
    if ('causes' in parsed) return { kind, name, causes: parsed.causes }
    return { extension: 'xml', text: writeDomain(named(parsed.vm)) }
  })
}

const named = ({ metadata, spec }: VirtualMachine): Domain =>
  metadata.name === undefined || spec.domain.name !== undefined ? spec.domain : { ...spec.domain, name: metadata.name }

type Converted =
  | { readonly extension: string; readonly text: string }
  | { readonly kind: string; readonly name: string; readonly causes: readonly Cause[] }

async function convertAll(
  inputs: AsyncIterable<Input>,
  output: Output,
  streams: Streams,
  step: (word: string) => void,
  convert: (input: Readable) => Promise<Converted>,
): Promise<ExitCode> {
  const seen = { unreadable: false, refused: false }
  for await (const input of inputs) {
    const converted = await attempt(input, convert)
    if ('error' in converted) {
      seen.unreadable = true
      streams.err(errorLine(converted.error))
    } else if ('causes' in converted) {
      seen.refused = true
      streams.err(`${refusalText(converted.kind, converted.name, converted.causes)}\n`)
      await output.beside(input.stem, 'causes', converted.causes)
    } else {
      await output.result(input.stem, converted.extension, converted.text)
    }
    step(input.file)
  }
  return exitCode(seen)
}

async function attempt(
  input: Input,
  convert: (input: Readable) => Promise<Converted>,
): Promise<Converted | { readonly error: string }> {
  if (input.kind === 'unreadable') return { error: input.message }
  try {
    return await convert(input)
  } catch (error) {
    return { error: unreadableText(error) }
  }
}

import { stringify } from 'yaml'
import type { Cause } from '../api/cause.ts'
import { readDomain, writeDomain } from '../api/domain/xml.ts'
import { parseMachine, type VirtualMachine } from '../api/machine.ts'
import { refusalText } from '../api/refusal.ts'
import { machineOfDomain } from './machine.ts'
import { Usage, exitCodes } from './failure.ts'
import { nameOf, type Input } from './input.ts'
import type { Output, Streams } from './output.ts'

/**
 * `kubectl vm import`: Domain XML → VM. What the description does not know is an error that names it; nothing is dropped.
 * @returns the exit code
 */
export function importAll(
  inputs: AsyncIterable<Input>,
  format: 'yaml' | 'json',
  output: Output,
  streams: Streams,
  step: (word: string) => void,
): Promise<number> {
  return convertAll(inputs, output, streams, step, (input) => {
    if (input.kind !== 'xml')
      throw new Usage(`${input.file}: import reads libvirt's Domain XML, and this is a manifest`)
    const read = readDomain(input.xml)
    if ('causes' in read) return { name: input.stem, causes: read.causes }
    const machine = machineOfDomain(read.domain, input.stem)
    const text = format === 'json' ? `${JSON.stringify(machine, null, 2)}\n` : stringify(machine, { lineWidth: 0 })
    return { extension: format, text }
  })
}

/**
 * `kubectl vm export`: VM → Domain XML, in the user's own spelling, with nothing added but the name.
 * @returns the exit code
 */
export function exportAll(
  inputs: AsyncIterable<Input>,
  output: Output,
  streams: Streams,
  step: (word: string) => void,
): Promise<number> {
  return convertAll(inputs, output, streams, step, (input) => {
    if (input.kind === 'xml') throw new Usage(`${input.file}: export reads VirtualMachine manifests, and this is XML`)
    const parsed = parseMachine(input.object)
    if ('causes' in parsed) return { name: nameOf(input.object), causes: parsed.causes }
    return { extension: 'xml', text: writeDomain(named(parsed.machine)) }
  })
}

const named = ({ metadata, spec }: VirtualMachine): VirtualMachine['spec']['domain'] =>
  metadata.name === undefined || spec.domain.name !== undefined ? spec.domain : { ...spec.domain, name: metadata.name }

type Converted =
  | { readonly extension: string; readonly text: string }
  | { readonly name: string; readonly causes: readonly Cause[] }

async function convertAll(
  inputs: AsyncIterable<Input>,
  output: Output,
  streams: Streams,
  step: (word: string) => void,
  convert: (input: Input) => Converted,
): Promise<number> {
  let code: number = exitCodes.fine
  for await (const input of inputs) {
    const converted = convert(input)
    if ('causes' in converted) {
      code = exitCodes.refused
      streams.err(`${refusalText('VirtualMachine', converted.name, converted.causes)}\n`)
      await output.beside(input.stem, 'causes', converted.causes)
    } else {
      await output.result(input.stem, converted.extension, converted.text)
    }
    step(input.file)
  }
  return code
}

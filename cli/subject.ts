import type { Cause } from '../api/cause.ts'
import { parseConfig } from '../api/config.ts'
import { validateDomain } from '../api/domain/validate.ts'
import { parseGroup } from '../api/group.ts'
import { parseMachine, type VirtualMachine } from '../api/machine.ts'
import { nearest } from '../api/nearest.ts'
import { apiVersion, type ObjectMeta } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'
import type { MachineTemplate } from '../api/template.ts'
import { Usage } from './failure.ts'
import { nameOf, type Input } from './input.ts'
import { sortKeys } from './key-order.ts'
import { machineOfDomain } from './machine.ts'
import { isPreset, type Manifest } from '../inventory/manifests.ts'

/** What is asked about: a VM, or the kind that it would be made from. */
export interface Subject {
  readonly kind: Kind
  readonly name: string
  /** Where the VM's fields stand in what its user wrote: '' or `spec.template.`. */
  readonly prefix: string
  /** The VM as its user wrote it, for the order of its keys. */
  readonly written: unknown
  readonly parsed: { readonly machine: VirtualMachine } | { readonly causes: readonly Cause[] }
}

const kinds = ['VirtualMachine', 'VirtualMachineConfig', 'VirtualMachineGroup'] as const
type Kind = (typeof kinds)[number]

/**
 * The VM that an input is about: its own, the one of a config's or a group's template, or one for a bare domain. Undefined for a preset, which
 * may lie beside VMs.
 */
export async function subjectOf(
  input: Exclude<Input, { kind: 'unreadable' }>,
  namespace: string,
): Promise<Subject | undefined> {
  if (input.kind === 'xml') return domainSubject(input.stem, input.xml, namespace)
  const { object, file } = input
  if (isPreset(object)) return undefined
  const kind = kinds.find((known) => known === object['kind'])
  if (kind === undefined) throw new Usage(`${file}: ${unknownKind(String(object['kind']), nameOf(object))}`)
  if (object['apiVersion'] !== apiVersion) {
    const found =
      object['apiVersion'] === undefined ? 'no apiVersion' : `apiVersion ${JSON.stringify(object['apiVersion'])}`
    throw new Usage(`${file}: ${kind} "${nameOf(object)}" has ${found}, and ${apiVersion} is wanted`)
  }
  const prefix = kind === 'VirtualMachine' ? '' : 'spec.template.'
  const parsed = placed(parse(kind, sortKeys(object)), namespace)
  return { kind, name: nameOf(object), prefix, written: prefix === '' ? object : templateOf(object), parsed }
}

const templateOf = ({ spec }: Manifest): unknown => (isRecord(spec) ? spec['template'] : undefined)

function unknownKind(kind: string, name: string): string {
  const near = nearest(kind, kinds)
  const hint = near === undefined ? `only ${kinds.join(', ')} can be completed` : `did you mean ${near}?`
  return `kind ${JSON.stringify(kind)} of "${name}" is not known; ${hint}`
}

/** What reads XML is not loaded for those who have none. */
async function domainSubject(stem: string, xml: Buffer, namespace: string): Promise<Subject> {
  const { readDomain } = await import('../api/domain/xml.ts')
  const read = readDomain(xml)
  const causes = 'causes' in read ? read.causes : validateDomain(read.domain)
  const parsed =
    'causes' in read || causes.length > 0 ? { causes } : { machine: machineOfDomain(read.domain, stem, namespace) }
  const name = 'machine' in parsed ? nameOf({ ...parsed.machine }) : stem
  return { kind: 'VirtualMachine', name, prefix: '', written: undefined, parsed }
}

function parse(kind: Kind, object: unknown): Subject['parsed'] {
  switch (kind) {
    case 'VirtualMachine':
      return parseMachine(object)
    case 'VirtualMachineConfig': {
      const parsed = parseConfig(object)
      if ('causes' in parsed) return parsed
      const { metadata, spec } = parsed.config
      return {
        machine: machineOfTemplate(metadata, spec.template, { name: metadata.name ?? metadata.generateName ?? '' }),
      }
    }
    case 'VirtualMachineGroup': {
      const parsed = parseGroup(object)
      if ('causes' in parsed) return parsed
      const { metadata, spec } = parsed.group
      const generateName = `${metadata.name ?? metadata.generateName ?? ''}-`
      return { machine: machineOfTemplate(metadata, spec.template, { generateName }) }
    }
  }
}

const machineOfTemplate = (
  { namespace }: ObjectMeta,
  { metadata = {}, spec }: MachineTemplate,
  called: Pick<ObjectMeta, 'name' | 'generateName'>,
): VirtualMachine => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { ...called, ...(namespace === undefined ? {} : { namespace }), ...metadata },
  spec,
})

function placed(parsed: Subject['parsed'], namespace: string): Subject['parsed'] {
  if ('causes' in parsed) return parsed
  const { machine } = parsed
  return { machine: { ...machine, metadata: { namespace, ...machine.metadata } } }
}

/** Causes of the VM as its user finds them in what they wrote. */
export const causesAt = (prefix: string, causes: readonly Cause[]): readonly Cause[] =>
  prefix === '' ? causes : causes.map((cause) => ({ ...cause, field: `${prefix}${cause.field}` }))

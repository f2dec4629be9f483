import type { Cause } from '../api/cause.ts'
import { templateWithClaims } from '../api/claim-template.ts'
import { parseConfig } from '../api/config.ts'
import { validateDomain } from '../api/domain/validate.ts'
import { firstTemplate, parseGroup } from '../api/group.ts'
import { parseVirtualMachine, type VirtualMachine } from '../api/virtual-machine.ts'
import { nearest } from '../api/nearest.ts'
import { apiVersion, type ObjectMeta } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'
import type { VirtualMachineTemplate } from '../api/template.ts'
import { Usage } from './failure.ts'
import { nameOf, type Input } from './input.ts'
import { sortKeys } from './key-order.ts'
import { vmOfDomain } from './domain-vm.ts'
import { isObjectPreset, isPreset, type Manifest } from '../inventory/manifests.ts'

/** The VM of an input, or of the template of its config or group. */
export interface Subject {
  readonly kind: Kind
  readonly name: string
  /** The path of the VM in the manifest: '' or `spec.template.`. */
  readonly prefix: string
  /** The VM as written, for the order of its keys. */
  readonly written: unknown
  readonly parsed: { readonly vm: VirtualMachine } | { readonly causes: readonly Cause[] }
}

const kinds = ['VirtualMachine', 'VirtualMachineConfig', 'VirtualMachineGroup'] as const
type Kind = (typeof kinds)[number]

/** The VM of an input: the VM itself, the one of a template, or one for a bare domain. Undefined for a preset. */
export async function subjectOf(
  input: Exclude<Input, { kind: 'unreadable' }>,
  namespace: string,
): Promise<Subject | undefined> {
  if (input.kind === 'xml') return domainSubject(input.stem, input.xml, namespace)
  const { object, file } = input
  if (isPreset(object) || isObjectPreset(object)) return undefined
  const kind = kinds.find((known) => known === object['kind'])
  if (kind === undefined) throw new Usage(`${file}: ${unknownKind(String(object['kind']), nameOf(object))}`)
  if (object['apiVersion'] !== apiVersion) {
    const found =
      object['apiVersion'] === undefined ? 'no apiVersion' : `apiVersion ${JSON.stringify(object['apiVersion'])}`
    throw new Usage(`${file}: ${kind} "${nameOf(object)}" has ${found}; must be ${apiVersion}`)
  }
  const prefix = kind === 'VirtualMachine' ? '' : 'spec.template.'
  const parsed = placed(parse(kind, sortKeys(object)), namespace)
  return { kind, name: nameOf(object), prefix, written: prefix === '' ? object : templateOf(object), parsed }
}

const templateOf = ({ spec }: Manifest): unknown => (isRecord(spec) ? spec['template'] : undefined)

function unknownKind(kind: string, name: string): string {
  const near = nearest(kind, kinds)
  const hint = near === undefined ? `must be one of ${kinds.join(', ')}` : `did you mean ${near}?`
  return `unknown kind ${JSON.stringify(kind)} of "${name}"; ${hint}`
}

/** Loads the XML reader only for XML. */
async function domainSubject(stem: string, xml: Buffer, namespace: string): Promise<Subject> {
  const { readDomain } = await import('../api/domain/xml.ts')
  const read = readDomain(xml)
  const causes = 'causes' in read ? read.causes : validateDomain(read.domain)
  const parsed = 'causes' in read || causes.length > 0 ? { causes } : { vm: vmOfDomain(read.domain, stem, namespace) }
  const name = 'vm' in parsed ? nameOf({ ...parsed.vm }) : stem
  return { kind: 'VirtualMachine', name, prefix: '', written: undefined, parsed }
}

function parse(kind: Kind, object: unknown): Subject['parsed'] {
  switch (kind) {
    case 'VirtualMachine':
      return parseVirtualMachine(object)
    case 'VirtualMachineConfig': {
      const parsed = parseConfig(object)
      if ('causes' in parsed) return parsed
      const { metadata } = parsed.config
      return {
        vm: vmOfTemplate(metadata, templateWithClaims(parsed.config), {
          name: metadata.name ?? metadata.generateName ?? '',
        }),
      }
    }
    case 'VirtualMachineGroup': {
      const parsed = parseGroup(object)
      if ('causes' in parsed) return parsed
      const { metadata } = parsed.group
      const generateName = `${metadata.name ?? metadata.generateName ?? ''}-`
      return { vm: vmOfTemplate(metadata, firstTemplate(parsed.group), { generateName }) }
    }
  }
}

const vmOfTemplate = (
  { namespace }: ObjectMeta,
  { metadata = {}, spec }: VirtualMachineTemplate,
  called: Pick<ObjectMeta, 'name' | 'generateName'>,
): VirtualMachine => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { ...called, ...(namespace === undefined ? {} : { namespace }), ...metadata },
  spec,
})

function placed(parsed: Subject['parsed'], namespace: string): Subject['parsed'] {
  if ('causes' in parsed) return parsed
  const { vm } = parsed
  return { vm: { ...vm, metadata: { namespace, ...vm.metadata } } }
}

/** The causes with their paths in the manifest. */
export const causesAt = (prefix: string, causes: readonly Cause[]): readonly Cause[] =>
  prefix === '' ? causes : causes.map((cause) => ({ ...cause, field: `${prefix}${cause.field}` }))

import type { Cause } from './cause.ts'
import { validateDomain } from './domain/validate.ts'
import { checkLabels, cutName } from './label.ts'
import { excludePresetsAnnotation, virtualMachineSpecSchema } from './virtual-machine.ts'
import type { VirtualMachineSpec, VirtualMachine } from './virtual-machine.ts'
import { annotationsSchema, labelsSchema } from './metadata.ts'
import { apiVersion, group } from './object.ts'
import type { ObjectMeta, OwnerReference } from './object.ts'
import { reservedKeyCauses } from './reserved.ts'
import { bounded, isRecord, opaque, open } from './schema.ts'
import { checkSpecParts } from './spec-parts.ts'

/**
 * The template for the VMs of a config or group. It is stored as the user wrote it: only the VM created from it is
 * completed.
 */
export interface VirtualMachineTemplate {
  readonly metadata?: {
    readonly labels?: { readonly [key: string]: string }
    readonly annotations?: { readonly [key: string]: string }
  }
  readonly spec: VirtualMachineSpec
}

/** The kinds that own VMs. */
const owningKinds = ['VirtualMachineConfig', 'VirtualMachineGroup'] as const
type OwningKind = (typeof owningKinds)[number]

/** On a VM: the hash of the template that it was created from. */
export const templateRevisionAnnotation = 'virtset.io/template-revision'
/** On a VM that is stopped with another grace period than that of its spec, in seconds. */
export const gracePeriodAnnotation = 'virtset.io/grace-period-seconds'

/** The grace period with which a VM was stopped, in seconds; undefined if that of its spec applies. */
export function requestedGraceSeconds({ metadata }: { readonly metadata: ObjectMeta }): number | undefined {
  const text = metadata.annotations?.[gracePeriodAnnotation] ?? ''
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined
}

export const templateSchema = bounded(
  open(
    'The template of each VM. A change affects only VMs that are created after it.',
    {
      metadata: open('Labels and annotations of the VM, except reserved ones.', {
        labels: labelsSchema,
        annotations: annotationsSchema,
      }),
      spec: virtualMachineSpecSchema(
        opaque(
          "The virtual machine; the same fields as a VM's, completed only when a VM is created: kubectl explain vm.spec.domain",
        ),
      ),
    },
    ['spec'],
  ),
)

/** Validates the domain of a template even if the rest of the template is malformed. */
export function templateDomainCauses(value: unknown, field: string): Cause[] {
  const spec = isRecord(value) ? value['spec'] : undefined
  return isRecord(spec) && isRecord(spec['domain']) ? validateDomain(spec['domain'], `${field}.spec.domain`) : []
}

/** Checks a template that matches its schema. */
export function checkTemplate({ metadata = {}, spec }: VirtualMachineTemplate, field: string): Cause[] {
  const { labels = {}, annotations = {} } = metadata
  return [
    ...checkLabels(labels, `${field}.metadata.labels`),
    ...reservedKeyCauses(labels, `${field}.metadata.labels`),
    ...reservedKeyCauses(annotations, `${field}.metadata.annotations`, [excludePresetsAnnotation]),
    ...checkSpecParts(spec, `${field}.spec`),
  ]
}

/** An owner of VMs. */
export interface Owner {
  readonly kind: OwningKind
  readonly metadata: ObjectMeta & { readonly name: string; readonly uid: string }
  readonly spec: { readonly template: VirtualMachineTemplate }
}

/** The VM called `name` that `owner` creates from its template. `revision` is the template's hash. */
export function virtualMachineOf(owner: Owner, name: string, revision: string): VirtualMachine {
  const { metadata = {}, spec } = owner.spec.template
  const { namespace } = owner.metadata
  return {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(metadata.labels === undefined ? {} : { labels: metadata.labels }),
      annotations: { ...metadata.annotations, [templateRevisionAnnotation]: revision },
      ownerReferences: [ownerReference(owner)],
    },
    spec,
  }
}

export const ownerReference = ({ kind, metadata }: Pick<Owner, 'kind' | 'metadata'>): OwnerReference => ({
  apiVersion,
  kind,
  name: metadata.name,
  uid: metadata.uid,
  controller: true,
  blockOwnerDeletion: true,
})

/**
 * The `generateName` of VMs that are named after `name`. The generated suffix of five characters takes the rest of 63.
 */
export const generateNameFor = (name: string): string => `${cutName(name, 57)}-`

/** The reference to the owner that controls `object`, of any kind. */
export function controllerOf({ metadata }: { readonly metadata: ObjectMeta }): OwnerReference | undefined {
  for (const owner of metadata.ownerReferences ?? []) if (owner.controller === true) return owner
  return undefined
}

/**
 * The UID that a VM's UUID and MAC addresses are derived from, if it is not the VM's own. A config's VM has the same
 * ones after each start, so that its guest, licenses and network see one machine. Only virtset may make a config the
 * owner of a VM.
 */
export function identityOf(vm: { readonly metadata: ObjectMeta }): string | undefined {
  const owner = controllerOf(vm)
  return owner !== undefined && isOwning(owner) && owner.kind === 'VirtualMachineConfig' ? owner.uid : undefined
}

/**
 * Whether `owner` controls `object`. Compares more than the UID, because only references to our kinds are reserved for
 * virtset: a user may write this UID into a reference to another kind, or in another namespace.
 */
export function isControlledBy(
  object: { readonly metadata: ObjectMeta },
  owner: { readonly kind: OwningKind; readonly metadata: ObjectMeta },
): boolean {
  const controller = controllerOf(object)
  return (
    controller !== undefined &&
    controller.uid === owner.metadata.uid &&
    controller.kind === owner.kind &&
    isOwning(controller) &&
    object.metadata.namespace === owner.metadata.namespace
  )
}

/** Whether `owner` is a kind of ours that owns VMs. */
export const isOwning = ({ apiVersion: version, kind }: OwnerReference): boolean =>
  knownKinds.has(kind) && version.startsWith(versionPrefix)

const knownKinds: ReadonlySet<string> = new Set(owningKinds)
const versionPrefix = `${group}/`

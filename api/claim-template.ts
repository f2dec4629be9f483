import type { Cause } from './cause.ts'
import { checkCapacity } from './capacity.ts'
import { checkClaimSource, sourceKinds, type ClaimSource } from './claim-volume.ts'
import { invalidValue } from './field-error.ts'
import { cutName, dnsLabelRule, dnsSubdomainRule, isDnsLabel, isDnsSubdomain } from './label.ts'
import { apiVersion, type ObjectMeta } from './object.ts'
import { bounded, list, open, quantity, string, union, type SchemasOf } from './schema.ts'
import type { VirtualMachineTemplate } from './template.ts'

/** A claim that the controller creates for a config, or for each VM of a group, and the volume of the VM with it. */
export interface ClaimTemplate {
  readonly name: string
  /** If absent: empty. */
  readonly source?: TemplateSource
  readonly spec: ClaimSpec
}

/** Exactly one is set. */
export interface TemplateSource extends ClaimSource {
  /** The storage fills the claim, before the launcher sees it. */
  readonly snapshot?: { readonly name: string }
}

interface ClaimSpec {
  readonly accessModes?: readonly string[]
  readonly storageClassName?: string
  readonly volumeMode?: 'Filesystem' | 'Block'
  readonly resources: { readonly requests: { readonly storage: string } }
}

type Retention = 'Retain' | 'Delete'

/** The part of the spec of a config or group that its claims are made of. */
export interface ClaimTemplates {
  readonly claimTemplates?: readonly ClaimTemplate[]
  readonly persistentVolumeClaimRetentionPolicy?: { readonly whenDeleted?: Retention; readonly whenScaled?: Retention }
}

const accessModes = ['ReadWriteOnce', 'ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOncePod']

/** On a claim: the config or group that it was created for. */
const ownerLabels = { VirtualMachineConfig: 'virtset.io/config', VirtualMachineGroup: 'virtset.io/group' }

const templateSource = union(
  'What the disk is made from, once, when the claim has no disk. Exactly one kind must be set.',
  {},
  {
    ...sourceKinds,
    snapshot: open(
      'A VolumeSnapshot of the namespace, from which the storage makes the claim. The claim cannot be smaller.',
      { name: string('The name of the VolumeSnapshot.') },
      ['name'],
    ),
  } satisfies SchemasOf<TemplateSource>,
)

const templatesOf = (description: string) =>
  bounded(
    list(
      description,
      open(
        'A claim, and what its disk is made from.',
        {
          name: string('The name of the volume, and the first part of the name of the claim.', { maxLength: 63 }),
          source: templateSource,
          spec: open(
            "The claim's spec, as of a PersistentVolumeClaim.",
            {
              accessModes: list(
                'The access modes. If absent: ReadWriteOnce.',
                string('An access mode.', { enum: accessModes }),
                { minItems: 1, maxItems: accessModes.length },
              ),
              storageClassName: string('The storage class. If absent: the default one of the cluster.', {
                maxLength: 253,
              }),
              volumeMode: string('Filesystem, with the disk as the file disk.img, or Block. If absent: Filesystem.', {
                enum: ['Filesystem', 'Block'],
              }),
              resources: open(
                'The size.',
                {
                  requests: open(
                    'The size.',
                    { storage: quantity('The size of the claim, and of its disk, e.g. 20Gi.') },
                    ['storage'],
                  ),
                },
                ['requests'],
              ),
            } satisfies SchemasOf<ClaimSpec>,
            ['resources'],
          ),
        } satisfies SchemasOf<ClaimTemplate>,
        ['name', 'spec'],
      ),
      { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'], maxItems: 16 },
    ),
  )

const retention = { enum: ['Retain', 'Delete'] }
const policyDescription = 'What happens to the claims of claimTemplates, as of a StatefulSet.'
const whenDeleted = (owner: string) =>
  string(
    `When the ${owner} is deleted. Retain, the default: they remain. Delete: they are deleted. Applies to claims that are created afterwards.`,
    retention,
  )

export const configClaimFields = {
  claimTemplates: templatesOf(
    'Claims that are created for the config, with the name TEMPLATE-CONFIG, before its VM starts. Each is a volume of the VM with the name of the template. An existing claim is not changed.',
  ),
  persistentVolumeClaimRetentionPolicy: open(policyDescription, { whenDeleted: whenDeleted('config') }),
} satisfies SchemasOf<ClaimTemplates>

export const groupClaimFields = {
  claimTemplates: templatesOf(
    'Claims that are created for each VM, with the name TEMPLATE-GROUP-NUMBER, before it starts. Each is a volume of the VM with the name of the template. An existing claim is not changed. If set, the VMs have the names GROUP-0, GROUP-1, …',
  ),
  persistentVolumeClaimRetentionPolicy: open(policyDescription, {
    whenDeleted: whenDeleted('group'),
    whenScaled: string(
      'When the group deletes the VM because it is scaled in. Retain, the default: they remain, and the next VM of this number uses them. Delete: they are deleted after the VM has ended. If the VM ends for another reason, they remain.',
      retention,
    ),
  }),
} satisfies SchemasOf<ClaimTemplates>

/** The name of the claim of a template, the same for every VM of this name; that of a config has its name. */
export const claimNameOf = (template: string, vm: string): string => `${template}-${vm}`

/** The template with a volume for each claim of the VM, whose name is in `metadata`. */
export function templateWithClaims({
  metadata,
  spec,
}: {
  readonly metadata: ObjectMeta
  readonly spec: ClaimTemplates & { readonly template: VirtualMachineTemplate }
}): VirtualMachineTemplate {
  const { template, claimTemplates = [] } = spec
  if (claimTemplates.length === 0) return template
  const own = claimTemplates.map(({ name, source = { empty: {} }, spec: claim }) => {
    const capacity = claim.resources.requests.storage
    const claimName = claimNameOf(name, metadata.name ?? metadata.generateName ?? '')
    // A claim from a snapshot has its disk: an empty one in its place would hide that the snapshot had none.
    const filled = source.snapshot === undefined ? { source } : {}
    return { name, persistentVolumeClaim: { claimName, capacity, ...filled } }
  })
  return { ...template, spec: { ...template.spec, volumes: [...(template.spec.volumes ?? []), ...own] } }
}

interface ClaimOwner {
  readonly kind: keyof typeof ownerLabels
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly uid: string }
  readonly spec: ClaimTemplates
}

/** Whether a claim was created for this owner, and not by a user or for another one: they can have the same name. */
export const isClaimOf = ({ kind, metadata }: Pick<ClaimOwner, 'kind' | 'metadata'>, claim: ObjectMeta): boolean =>
  claim.labels?.[ownerLabels[kind]] === cutName(metadata.name, 63)

/** The labels of which a claim that was created for a config or group has one. */
export const claimOwnerLabels: readonly string[] = Object.values(ownerLabels)

/** The claims of a VM as they are created. */
export function claimsOfVm({ kind, metadata, spec: owning }: ClaimOwner, vm: string) {
  const { name, namespace, uid } = metadata
  const { claimTemplates = [], persistentVolumeClaimRetentionPolicy: policy = {} } = owning
  const owner = { apiVersion, kind, name, uid }
  return claimTemplates.map(({ name: template, source, spec }) => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name: claimNameOf(template, vm),
      ...(namespace === undefined ? {} : { namespace }),
      labels: { [ownerLabels[kind]]: cutName(name, 63) },
      ...(policy.whenDeleted === 'Delete' ? { ownerReferences: [owner] } : {}),
    },
    spec: {
      ...knownFields(spec),
      ...(source?.snapshot === undefined ? {} : { dataSource: { ...volumeSnapshotKind, name: source.snapshot.name } }),
    },
  }))
}

/** A config that was stored without the webhooks can have others, such as a selector of someone's volume. */
const knownFields = ({ accessModes = ['ReadWriteOnce'], storageClassName, volumeMode, resources }: ClaimSpec) => ({
  accessModes,
  ...(storageClassName === undefined ? {} : { storageClassName }),
  ...(volumeMode === undefined ? {} : { volumeMode }),
  resources: { requests: { storage: resources.requests.storage } },
})

const volumeSnapshotKind = { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot' }

/** Checks claim templates that match their schema, beside the template of the VM. */
export function checkClaimTemplates(
  { name: vm = '' }: Pick<ObjectMeta, 'name'>,
  { claimTemplates = [] }: ClaimTemplates,
  { spec }: VirtualMachineTemplate,
  field: string,
): Cause[] {
  const taken = new Set((spec.volumes ?? []).map(({ name }) => name))
  return claimTemplates.flatMap(({ name, source, spec: claim }, index) => {
    const at = `${field}[${index}]`
    const { storage } = claim.resources.requests
    const { storageClassName } = claim
    return [
      ...(isDnsLabel(name) ? [] : [invalidValue('volume-name', `${at}.name`, name, dnsLabelRule)]),
      ...(taken.has(name) ? [nameTaken(`${at}.name`, name)] : []),
      ...(claimNameOf(name, vm).length > longestName ? [nameTooLong(`${at}.name`, name)] : []),
      ...(storageClassName === undefined || storageClassName === '' || isDnsSubdomain(storageClassName)
        ? []
        : [invalidValue('storage-class-name', `${at}.spec.storageClassName`, storageClassName, dnsSubdomainRule)]),
      ...(source === undefined ? [] : checkClaimSource(source, `${at}.source`, ['snapshot'])),
      ...(source?.snapshot === undefined ? [] : checkSnapshotName(source.snapshot.name, `${at}.source.snapshot.name`)),
      ...checkCapacity(storage, `${at}.spec.resources.requests.storage`),
    ]
  })
}

const checkSnapshotName = (name: string, field: string): Cause[] =>
  isDnsSubdomain(name) ? [] : [invalidValue('volume-snapshot-name', field, name, dnsSubdomainRule)]

/** Kubernetes' limit for the name of an object. */
const longestName = 253

const nameTooLong = (field: string, value: string): Cause =>
  invalidValue(
    'claim-template-name',
    field,
    value,
    `must be shorter: the name of the claim, which begins with it, has more than ${longestName} characters`,
  )

const nameTaken = (field: string, value: string): Cause => ({
  rule: 'claim-template-name',
  field,
  value,
  reason: 'FieldValueDuplicate',
  message: 'is already the name of a volume in the template: the VM gets a volume for each claim template',
})

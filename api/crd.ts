import { configSpecSchema } from './config.ts'
import { groupSpecSchema } from './group.ts'
import { virtualMachineSpecSchema } from './virtual-machine.ts'
import { nodeCapabilitySetSpecSchema } from './node-capability-set.ts'
import { nodeProfileSpecSchema } from './node-profile.ts'
import { group, version } from './object.ts'
import { objectPresetSpecSchema } from './object-preset.ts'
import { presetSpecSchema } from './preset.ts'
import { presetTargetSpecSchema } from './preset-target.ts'
import type { Schema } from './schema.ts'
import { quiescedCondition, snapshotSpecSchema } from './snapshot.ts'
import {
  configStatusSchema,
  groupStatusSchema,
  objectPresetStatusSchema,
  presetStatusSchema,
  presetTargetStatusSchema,
  snapshotStatusSchema,
  virtualMachineStatusSchema,
} from './status.ts'

/** The part of apiextensions.k8s.io/v1 that virtset writes. */
export interface CustomResourceDefinition {
  readonly apiVersion: 'apiextensions.k8s.io/v1'
  readonly kind: 'CustomResourceDefinition'
  readonly metadata: { readonly name: string }
  readonly spec: {
    readonly group: string
    readonly scope: 'Namespaced' | 'Cluster'
    readonly names: Names
    readonly versions: readonly {
      readonly name: string
      readonly served: true
      readonly storage: true
      readonly subresources?: { readonly status: Record<string, never>; readonly scale?: Scale }
      readonly additionalPrinterColumns: readonly Column[]
      readonly selectableFields?: readonly { readonly jsonPath: string }[]
      readonly schema: { readonly openAPIV3Schema: Schema }
    }[]
  }
}

interface Names {
  readonly kind: string
  readonly listKind: string
  readonly plural: string
  readonly singular: string
  readonly shortNames: readonly string[]
  readonly categories?: readonly string[]
}

/** The paths that the scale subresource reads and writes. */
interface Scale {
  readonly specReplicasPath: string
  readonly statusReplicasPath: string
  readonly labelSelectorPath: string
}

interface Column {
  readonly name: string
  readonly type: 'string' | 'integer' | 'boolean' | 'date'
  readonly jsonPath: string
  readonly description: string
  /** 1: shown only with `-o wide`. */
  readonly priority?: 1
}

interface Kind {
  readonly kind: string
  readonly scope: 'Namespaced' | 'Cluster'
  readonly shortNames: readonly string[]
  readonly categories?: readonly string[]
  readonly columns: readonly Column[]
  readonly selectableFields?: readonly string[]
  readonly scale?: Scale
  readonly description: string
  readonly spec: Schema
  /** Absent if the spec itself records an observation. */
  readonly status?: Schema
}

/** The definitions of all kinds. `domain` is the schema of a domain. */
export const customResourceDefinitions = (domain: Schema): CustomResourceDefinition[] => [
  define({
    kind: 'VirtualMachine',
    scope: 'Namespaced',
    shortNames: ['vm', 'vms', 'vmi'],
    categories: ['all'],
    columns: vmColumns,
    selectableFields: ['.status.nodeName', '.status.phase'],
    description: 'A virtual machine. Creating the object starts it; deleting the object shuts it down gracefully.',
    spec: virtualMachineSpecSchema(domain),
    status: virtualMachineStatusSchema,
  }),
  define({
    kind: 'VirtualMachinePreset',
    scope: 'Namespaced',
    shortNames: ['vmp'],
    columns: presetColumns,
    description: 'What to inject into VMs of this namespace that a selector matches, when they are created.',
    spec: presetSpecSchema('VirtualMachinePreset'),
    status: presetStatusSchema,
  }),
  define({
    kind: 'ClusterVirtualMachinePreset',
    scope: 'Cluster',
    shortNames: ['cvmp'],
    columns: presetColumns,
    description:
      'What to inject into VMs of every namespace that selectors match, when they are created. The only way to grant fields that reach the host.',
    spec: presetSpecSchema('ClusterVirtualMachinePreset'),
    status: presetStatusSchema,
  }),
  define({
    kind: 'VirtualMachineConfig',
    scope: 'Namespaced',
    shortNames: ['vmc', 'vmic'],
    categories: ['all'],
    columns: configColumns,
    selectableFields: ['.status.phase'],
    description:
      'The definition of a virtual machine, which exists while the VM is off. Its subresources start, stop and restart create and delete the running VM.',
    spec: configSpecSchema,
    status: configStatusSchema,
  }),
  define({
    kind: 'VirtualMachineGroup',
    scope: 'Namespaced',
    shortNames: ['vmg'],
    categories: ['all'],
    columns: groupColumns,
    scale: {
      specReplicasPath: '.spec.replicas',
      statusReplicasPath: '.status.replicas',
      labelSelectorPath: '.status.selector',
    },
    description: 'Maintains a number of equal virtual machines.',
    spec: groupSpecSchema,
    status: groupStatusSchema,
  }),
  define({
    kind: 'VirtualMachineSnapshot',
    scope: 'Namespaced',
    shortNames: ['vmsnap'],
    columns: snapshotColumns,
    selectableFields: ['.status.phase'],
    description:
      'The claims of a virtual machine at one point in time, as a VolumeSnapshot of each. Deleting the object deletes them.',
    spec: snapshotSpecSchema,
    status: snapshotStatusSchema,
  }),
  define({
    kind: 'NodeProfile',
    scope: 'Cluster',
    shortNames: ['nodeprof'],
    columns: nodeProfileColumns,
    description:
      'The virtualization capabilities of a node, written by the handler on it. A VM is completed with what all nodes that it may be scheduled to support.',
    spec: nodeProfileSpecSchema,
  }),
  define({
    kind: 'NodeCapabilitySet',
    scope: 'Cluster',
    shortNames: ['nodecap'],
    columns: nodeCapabilitySetColumns,
    description:
      'Virtualization capabilities that several nodes have. Their NodeProfiles name the set instead of repeating it. The controller creates and deletes sets, each with the hash of its capabilities as its name.',
    spec: nodeCapabilitySetSpecSchema,
  }),
  define({
    kind: 'PresetTarget',
    scope: 'Cluster',
    shortNames: ['pt'],
    columns: presetTargetColumns,
    description:
      'A kind of another API whose objects ObjectPresets and ClusterObjectPresets complete when they are created. Its name is that of the resource and its group, e.g. pods or deployments.apps.',
    spec: presetTargetSpecSchema,
    status: presetTargetStatusSchema,
  }),
  define({
    kind: 'ObjectPreset',
    scope: 'Namespaced',
    shortNames: ['op'],
    columns: objectPresetColumns,
    description:
      'What to inject into objects of this namespace and of the kind of a PresetTarget that a selector matches, when they are created.',
    spec: objectPresetSpecSchema('ObjectPreset'),
    status: objectPresetStatusSchema,
  }),
  define({
    kind: 'ClusterObjectPreset',
    scope: 'Cluster',
    shortNames: ['cop'],
    columns: objectPresetColumns,
    description:
      'What to inject into objects of every namespace and of the kind of a PresetTarget that selectors match, when they are created.',
    spec: objectPresetSpecSchema('ClusterObjectPreset'),
    status: objectPresetStatusSchema,
  }),
]

const condition = (type: string) => `.status.conditions[?(@.type=="${type}")].status`

const age: Column = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'When the object was created.',
}

const vmColumns: readonly Column[] = [
  { name: 'Phase', type: 'string', jsonPath: '.status.phase', description: 'The phase of the VM.' },
  { name: 'Node', type: 'string', jsonPath: '.status.nodeName', description: 'The node that the VM runs on.' },
  {
    name: 'IP',
    type: 'string',
    jsonPath: '.status.podIP',
    description: 'The IP address at which others reach the VM.',
  },
  { name: 'Ready', type: 'string', jsonPath: condition('Ready'), description: 'Whether the guest is running.' },
  age,
  {
    name: 'Presets',
    type: 'string',
    jsonPath: '.status.presets',
    description: 'The presets that were applied to the VM.',
    priority: 1,
  },
  {
    name: 'Reason',
    type: 'string',
    jsonPath: '.status.reason',
    description: 'The reason for the phase, in one word.',
    priority: 1,
  },
  {
    name: 'Accelerator',
    type: 'string',
    jsonPath: '.spec.domain.type',
    description: 'kvm: the CPU of the node runs the guest. qemu: QEMU emulates it.',
    priority: 1,
  },
  { name: 'Machine', type: 'string', jsonPath: '.status.machine', description: 'The machine type.', priority: 1 },
  { name: 'Memory', type: 'string', jsonPath: '.status.memory', description: 'The memory of the guest.', priority: 1 },
  { name: 'CPUs', type: 'integer', jsonPath: '.status.cpus', description: 'The virtual CPUs.', priority: 1 },
  {
    name: 'Guest',
    type: 'string',
    jsonPath: '.status.guest.os.name',
    description: 'The operating system, as the agent in the guest reports it.',
    priority: 1,
  },
]

const policyColumns: readonly Column[] = [
  { name: 'Strength', type: 'string', jsonPath: '.spec.strength', description: 'Default (where empty) or Enforce.' },
  {
    name: 'Priority',
    type: 'integer',
    jsonPath: '.spec.priority',
    description: 'The higher priority wins within a layer.',
  },
  { name: 'Mode', type: 'string', jsonPath: '.spec.mode', description: 'Apply (where empty), Warn or Audit.' },
  { name: 'Accepted', type: 'string', jsonPath: condition('Accepted'), description: 'Whether the preset is valid.' },
]

const revision: Column = {
  name: 'Revision',
  type: 'string',
  jsonPath: '.status.revision',
  description: 'Hash of its content.',
  priority: 1,
}

const presetColumns: readonly Column[] = [
  ...policyColumns,
  { name: 'Matched', type: 'integer', jsonPath: '.status.matched', description: 'VMs that the preset selects now.' },
  {
    name: 'Outdated',
    type: 'integer',
    jsonPath: '.status.outdated',
    description: 'VMs that were completed with an older revision.',
  },
  age,
  {
    name: 'ConflictFree',
    type: 'string',
    jsonPath: condition('ConflictFree'),
    description: 'Whether no other preset sets a different value for the same VM.',
    priority: 1,
  },
  revision,
]

const objectPresetColumns: readonly Column[] = [
  { name: 'Kind', type: 'string', jsonPath: '.spec.target.kind', description: 'The kind of the objects.' },
  ...policyColumns,
  age,
  revision,
]

const presetTargetColumns: readonly Column[] = [
  { name: 'API', type: 'string', jsonPath: '.spec.apiVersion', description: 'The group and version of the kind.' },
  { name: 'Kind', type: 'string', jsonPath: '.spec.kind', description: 'The name of the kind.' },
  {
    name: 'Failure',
    type: 'string',
    jsonPath: '.spec.failurePolicy',
    description: 'What happens to objects while the webhooks are unavailable.',
  },
  {
    name: 'Ready',
    type: 'string',
    jsonPath: condition('Ready'),
    description: 'Whether presets are applied to the kind.',
  },
  age,
]

const configColumns: readonly Column[] = [
  {
    name: 'Status',
    type: 'string',
    jsonPath: '.status.phase',
    description: 'Whether the VM is stopped, running, or in between.',
  },
  { name: 'Node', type: 'string', jsonPath: '.status.instance.nodeName', description: 'The node that the VM runs on.' },
  {
    name: 'Outdated',
    type: 'boolean',
    jsonPath: '.status.outdated',
    description: 'Whether the VM was created from an older template.',
  },
  age,
]

const groupColumns: readonly Column[] = [
  { name: 'Desired', type: 'integer', jsonPath: '.spec.replicas', description: 'The desired number of VMs.' },
  { name: 'Current', type: 'integer', jsonPath: '.status.replicas', description: 'The current number of VMs.' },
  { name: 'Ready', type: 'integer', jsonPath: '.status.readyReplicas', description: 'VMs whose guest is running.' },
  age,
]

const snapshotColumns: readonly Column[] = [
  { name: 'Source', type: 'string', jsonPath: '.spec.source.name', description: 'The VM or config.' },
  { name: 'Status', type: 'string', jsonPath: '.status.phase', description: 'Pending, InProgress, Ready or Failed.' },
  {
    name: 'Quiesced',
    type: 'string',
    jsonPath: condition(quiescedCondition),
    description: 'Whether the file systems of the guest were frozen, or it was off.',
  },
  {
    name: 'Taken',
    type: 'date',
    jsonPath: '.status.creationTime',
    description: 'When the last VolumeSnapshot was taken.',
  },
  age,
  {
    name: 'Kind',
    type: 'string',
    jsonPath: '.spec.source.kind',
    description: 'VirtualMachine (where empty) or VirtualMachineConfig.',
    priority: 1,
  },
]

const qemu: Column = {
  name: 'QEMU',
  type: 'string',
  jsonPath: '.spec.capabilities.version',
  description: 'The version of QEMU.',
}

const defaultMachine: Column = {
  name: 'Machine',
  type: 'string',
  jsonPath: '.spec.capabilities.machines[?(@.isDefault==true)].name',
  description: 'The default machine type.',
}

const nodeProfileColumns: readonly Column[] = [
  qemu,
  { name: 'Libvirt', type: 'string', jsonPath: '.spec.libvirtVersion', description: 'The version of libvirt.' },
  defaultMachine,
  { name: 'KVM', type: 'boolean', jsonPath: '.spec.kvm', description: 'Whether VMs of type kvm can run on the node.' },
  age,
  {
    name: 'CapabilitySet',
    type: 'string',
    jsonPath: '.spec.capabilitySetName',
    description: 'The NodeCapabilitySet with the capabilities of the node, if it has none of its own.',
    priority: 1,
  },
]

const nodeCapabilitySetColumns: readonly Column[] = [
  qemu,
  defaultMachine,
  {
    name: 'Retired',
    type: 'boolean',
    jsonPath: '.spec.retired',
    description: 'Whether nodes publish their own capabilities again.',
  },
  age,
]

function define(of: Kind): CustomResourceDefinition {
  const singular = of.kind.toLowerCase()
  const plural = `${singular}s`
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: of.scope,
      names: {
        kind: of.kind,
        listKind: `${of.kind}List`,
        plural,
        singular,
        shortNames: of.shortNames,
        ...(of.categories === undefined ? {} : { categories: of.categories }),
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          ...(of.status === undefined
            ? {}
            : { subresources: { status: {}, ...(of.scale === undefined ? {} : { scale: of.scale }) } }),
          additionalPrinterColumns: of.columns,
          ...(of.selectableFields === undefined
            ? {}
            : { selectableFields: of.selectableFields.map((jsonPath) => ({ jsonPath })) }),
          schema: { openAPIV3Schema: rootSchema(of) },
        },
      ],
    },
  }
}

const rootSchema = ({ description, spec, status }: Kind): Schema => ({
  description,
  type: 'object',
  required: ['spec'],
  properties: {
    apiVersion: { type: 'string', description: 'The API version of the object.' },
    kind: { type: 'string', description: 'The kind of the object.' },
    metadata: { type: 'object' },
    spec,
    ...(status === undefined ? {} : { status }),
  },
})

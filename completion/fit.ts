import type { Capabilities } from '../api/capabilities.ts'
import { cpuLabelsOf, isCpuLabel } from '../api/cpu-label.ts'
import type { NodeProfile, Taint } from '../api/node-profile.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import type { NodeRequirement, NodeTerm } from '../api/affinity.ts'
import type { Toleration } from '../api/placement.ts'

/** The fields of a VM that decide on which nodes its pod may run. */
export type Place = Pick<VirtualMachineSpec, 'nodeSelector' | 'affinity' | 'tolerations'>

interface Labelled {
  readonly labels: { readonly [key: string]: string }
  readonly capabilities: Capabilities
}

/**
 * Whether the scheduler may place a VM's pod on a node, by labels and taints. Other pods and free resources
 * change during the life of a VM and are ignored. The place is compiled once for all nodes.
 */
export function fitsOn({ nodeSelector = {}, affinity, tolerations = [] }: Place): (node: NodeProfile) => boolean {
  const selected = Object.entries(nodeSelector)
  const terms =
    affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms.map(compileTerm)
  return ({ metadata: { name = '', labels = {} }, spec }) =>
    selected.every(([key, value]) => valueOf({ labels, ...spec }, key) === value) &&
    (terms === undefined || terms.some((isMet) => isMet(name, { labels, ...spec }))) &&
    spec.taints.every((taint) => isPreference(taint) || tolerations.some((one) => tolerates(one, taint)))
}

/** A profile omits the labels for CPUs, which follow from its capabilities. */
function valueOf({ labels, capabilities }: Labelled, key: string): string | undefined {
  const of = isCpuLabel(key) ? cpuLabels(capabilities) : labels
  return Object.hasOwn(of, key) ? of[key] : undefined
}

const cached = new WeakMap<Capabilities, Labelled['labels']>()

function cpuLabels(capabilities: Capabilities): Labelled['labels'] {
  const labels = cached.get(capabilities) ?? cpuLabelsOf(capabilities.accelerators.kvm)
  cached.set(capabilities, labels)
  return labels
}

/** As in Kubernetes, no node meets a term without requirements. */
function compileTerm({ matchExpressions = [], matchFields = [] }: NodeTerm): (name: string, node: Labelled) => boolean {
  const onLabels = matchExpressions.map((one) => ({ key: one.key, holds: compileRequirement(one) }))
  const onFields = matchFields.map((one) => ({ key: one.key, holds: compileRequirement(one) }))
  if (onLabels.length + onFields.length === 0) return () => false
  return (name, node) =>
    onLabels.every(({ key, holds }) => holds(valueOf(node, key))) &&
    onFields.every(({ key, holds }) => holds(key === 'metadata.name' ? name : undefined))
}

function compileRequirement({ operator, values = [] }: NodeRequirement): (value: string | undefined) => boolean {
  const among = new Set(values)
  const [first] = values
  switch (operator) {
    case 'In':
      return (value) => value !== undefined && among.has(value)
    case 'NotIn':
      return (value) => value === undefined || !among.has(value)
    case 'Exists':
      return (value) => value !== undefined
    case 'DoesNotExist':
      return (value) => value === undefined
    case 'Gt':
      return (value) => value !== undefined && first !== undefined && Number(value) > Number(first)
    case 'Lt':
      return (value) => value !== undefined && first !== undefined && Number(value) < Number(first)
  }
}

const isPreference = ({ effect }: Taint): boolean => effect === 'PreferNoSchedule'

function tolerates(toleration: Toleration, taint: Taint): boolean {
  const { key = '', operator = 'Equal', value = '', effect } = toleration
  return (
    (effect === undefined || effect === taint.effect) &&
    (key === '' || key === taint.key) &&
    (operator === 'Exists' || (key !== '' && value === (taint.value ?? '')))
  )
}

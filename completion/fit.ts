import type { Capabilities } from '../api/capabilities.ts'
import { cpuLabelsOf, isCpuLabel } from '../api/cpu-label.ts'
import type { NodeProfile, Taint } from '../api/node-profile.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import type { NodeRequirement, NodeTerm } from '../api/affinity.ts'
import type { Toleration } from '../api/placement.ts'

/** The fields of a VM that decide on which nodes its pod may run. */
export type Place = Pick<VirtualMachineSpec, 'nodeSelector' | 'affinity' | 'tolerations'>

interface Labels {
  readonly [key: string]: string
}
/** Of a node: its value of one label; undefined if it has none. */
type ValueOf = (node: NodeProfile) => string | undefined
type Holds = (node: NodeProfile) => boolean

/**
 * Whether the scheduler may place a VM's pod on a node, by labels and taints. Other pods and free resources
 * change during the life of a VM and are ignored. The place is compiled once for all nodes.
 */
export function fitsOn({ nodeSelector = {}, affinity, tolerations = [] }: Place): (node: NodeProfile) => boolean {
  const selected = Object.entries(nodeSelector).map(([key, value]): Holds => {
    const valueOf = label(key)
    return (node) => valueOf(node) === value
  })
  const terms =
    affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms.map(compileTerm)
  return (node) =>
    selected.every((holds) => holds(node)) &&
    (terms === undefined || terms.some((isMet) => isMet(node))) &&
    node.spec.taints.every((taint) => isPreference(taint) || tolerations.some((one) => tolerates(one, taint)))
}

/** A profile omits the labels for CPUs, which follow from its capabilities. */
function label(key: string): ValueOf {
  const valueIn = (labels: Labels) => (Object.hasOwn(labels, key) ? labels[key] : undefined)
  return isCpuLabel(key)
    ? ({ spec }) => valueIn(cpuLabels(spec.capabilities))
    : ({ metadata: { labels = {} } }) => valueIn(labels)
}

const field = (key: string): ValueOf =>
  key === 'metadata.name' ? ({ metadata }) => metadata.name ?? '' : () => undefined

const cached = new WeakMap<Capabilities, Labels>()

function cpuLabels(capabilities: Capabilities): Labels {
  const known = cached.get(capabilities)
  if (known !== undefined) return known
  const labels = cpuLabelsOf(capabilities.accelerators.kvm)
  cached.set(capabilities, labels)
  return labels
}

/** As in Kubernetes, no node meets a term without requirements. */
function compileTerm({ matchExpressions = [], matchFields = [] }: NodeTerm): Holds {
  const compile = (requirement: NodeRequirement, valueOf: ValueOf): Holds => {
    const holds = compileRequirement(requirement)
    return (node) => holds(valueOf(node))
  }
  const all = [
    ...matchExpressions.map((one) => compile(one, label(one.key))),
    ...matchFields.map((one) => compile(one, field(one.key))),
  ]
  return all.length === 0 ? () => false : (node) => all.every((holds) => holds(node))
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

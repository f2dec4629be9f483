import type { NodeProfile, Taint } from '../api/node-profile.ts'
import type { MachineSpec } from '../api/machine.ts'
import type { NodeRequirement, NodeTerm, Toleration } from '../api/placement.ts'

/** What decides whether a VM's pod may be put on a node. */
export type Place = Pick<MachineSpec, 'nodeSelector' | 'affinity' | 'tolerations'>

type Labels = { readonly [key: string]: string }

/**
 * Whether the scheduler may put a VM's pod on a node: by the labels that the VM selects and requires, and the taints that it tolerates.
 * How full a node is, and what else runs there, passes.
 */
export function fits(
  { nodeSelector = {}, affinity, tolerations = [] }: Place,
  { metadata, spec }: NodeProfile,
): boolean {
  const { name = '', labels = {} } = metadata
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms
  return (
    Object.entries(nodeSelector).every(([key, value]) => valueOf(labels, key) === value) &&
    (terms === undefined || terms.some((term) => isMet(term, name, labels))) &&
    spec.taints.every((taint) => keepsNobody(taint) || tolerations.some((one) => tolerates(one, taint)))
  )
}

const valueOf = (labels: Labels, key: string): string | undefined =>
  Object.hasOwn(labels, key) ? labels[key] : undefined

/** As Kubernetes has it, a term without requirements is met by no node. */
function isMet({ matchExpressions = [], matchFields = [] }: NodeTerm, name: string, labels: Labels): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false
  return (
    matchExpressions.every((one) => holds(one, valueOf(labels, one.key))) &&
    matchFields.every((one) => holds(one, one.key === 'metadata.name' ? name : undefined))
  )
}

function holds({ operator, values = [] }: NodeRequirement, value: string | undefined): boolean {
  const [first] = values
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value)
    case 'NotIn':
      return value === undefined || !values.includes(value)
    case 'Exists':
      return value !== undefined
    case 'DoesNotExist':
      return value === undefined
    case 'Gt':
      return value !== undefined && first !== undefined && Number(value) > Number(first)
    case 'Lt':
      return value !== undefined && first !== undefined && Number(value) < Number(first)
  }
}

const keepsNobody = ({ effect }: Taint): boolean => effect === 'PreferNoSchedule'

function tolerates(toleration: Toleration, taint: Taint): boolean {
  const { key = '', operator = 'Equal', value = '', effect } = toleration
  return (
    (effect === undefined || effect === taint.effect) &&
    (key === '' || key === taint.key) &&
    (operator === 'Exists' || (key !== '' && value === (taint.value ?? '')))
  )
}

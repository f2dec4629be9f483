import type { Accelerator } from './capabilities.ts'
import type { Domain } from './domain/domain.ts'
import { isQualifiedName } from './label.ts'

/** Labels of nodes: which CPU models and features VMs of type kvm can have there. The value is `true`. */
export const cpuLabelPrefixes = ['cpu-model.virtset.io/', 'cpu-feature.virtset.io/'] as const
const [modelPrefix, featurePrefix] = cpuLabelPrefixes

type Labels = { readonly [key: string]: string }

export const isCpuLabel = (key: string): boolean => cpuLabelPrefixes.some((prefix) => key.startsWith(prefix))

/**
 * The labels of a node whose KVM can do this: a model that runs with all of its features, by both of its names, and the
 * features that the node's CPU has.
 */
export function cpuLabelsOf(kvm: Accelerator | undefined): Labels {
  const models = (kvm?.cpuModels ?? [])
    .filter(({ blockers }) => blockers.length === 0)
    .flatMap(({ name, canonical }) => (canonical === undefined ? [name] : [name, canonical]))
  return labelsOf(models, kvm?.cpuFeatures ?? [])
}

/**
 * The labels that a node must have to run the domain: of its CPU model, unless libvirt is not to check it
 * (`check: none`) or features of it are disabled, and of the features that it requires. The labels of nodes do not show
 * which features a model still has after some were disabled; `unfitNodes` finds the nodes without them.
 */
export function requiredCpuLabels({ type, cpu }: Domain): Labels {
  if (type !== 'kvm' || cpu === undefined) return {}
  const model = requiredModel(cpu)
  const isWhole = !(cpu.features ?? []).some(({ policy }) => isDropped(policy))
  return labelsOf(model !== undefined && isWhole ? [model] : [], requiredFeatures(cpu))
}

type Cpu = NonNullable<Domain['cpu']>

/** The CPU model that the node must be able to run. */
export const requiredModel = ({ mode = 'custom', check, model }: Cpu): string | undefined =>
  mode === 'custom' && check !== 'none' ? model?.value : undefined

/** The CPU features that the node must have. */
export const requiredFeatures = (cpu: Cpu): string[] => featuresWith(cpu, 'require')

export const featuresWith = ({ features = [] }: Cpu, wanted: string): string[] =>
  features.flatMap(({ name, policy = 'require' }) => (name !== undefined && policy === wanted ? [name] : []))

/** Whether the VM runs also without the feature. */
export const isDropped = (policy: string | undefined): boolean => policy === 'disable' || policy === 'optional'

const labelsOf = (models: readonly string[], features: readonly string[]): Labels =>
  Object.fromEntries(
    [...models.map((name) => modelPrefix + name), ...features.map((name) => featurePrefix + name)]
      // libvirt has no model or feature of another syntax, and the API server refuses such a selector.
      .filter(isQualifiedName)
      .toSorted()
      .map((key) => [key, 'true']),
  )

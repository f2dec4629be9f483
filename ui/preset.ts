import { collectionPath, type Metadata } from './api.ts'
import type { Cluster } from './cluster.ts'
import { Edit, type EditedText } from './edit.ts'
import { html } from './html.ts'
import { Impact } from './impact.ts'
import { kindNames, type PresetPlural } from './kinds.ts'
import { textHref } from './place.ts'
import { State, type Condition } from './state.ts'
import type { Read } from './text.ts'
import { useWatched } from './watched.ts'

interface PresetProps {
  readonly plural: PresetPlural
  /** Empty for a cluster preset. */
  readonly namespace: string
  /** Empty for a new one. */
  readonly name: string
  readonly cluster: Cluster
}

const template = (plural: PresetPlural, namespace: string): string => `apiVersion: virtset.io/v1alpha1
kind: ${kindNames[plural]}
metadata:
  name: small${plural === 'virtualmachinepresets' ? `\n  namespace: ${namespace}` : ''}
spec:
  selector:
    matchLabels: {size: small}
  domain:
    vcpu: {value: 1}
`

/** A preset: its text, the VMs that it matches and the impact of an edit, and its state. */
export function Preset({ plural, namespace, name, cluster }: PresetProps) {
  return html`
    <${Edit}
      plural=${plural}
      namespace=${namespace}
      name=${name}
      template=${template(plural, namespace || cluster.namespace)}
      path="/check-preset"
      aside=${({ text, isFine }: EditedText<Read>) => html`<${Impact} text=${text} isFine=${isFine} isStored=${name !== ''} />`}
      hrefOf=${textHref}
    />
    ${name !== '' && html`<${PresetState} plural=${plural} namespace=${namespace} name=${name} />`}
  `
}

interface StoredPreset {
  readonly metadata: Metadata
  readonly spec: {
    readonly strength?: string
    readonly priority?: number
    readonly mode?: string
    readonly exclusiveGroup?: string
  }
  readonly status?: {
    readonly revision?: string
    readonly matched?: number
    readonly applied?: number
    readonly outdated?: number
    readonly conditions?: readonly Condition[]
  }
}

function PresetState({ plural, namespace, name }: Omit<PresetProps, 'cluster'>) {
  const collection = collectionPath(plural, namespace === '' ? undefined : namespace)
  const query = encodeURIComponent(`metadata.name=${name}`)
  const { objects, error } = useWatched<StoredPreset>(`${collection}?fieldSelector=${query}`)
  const [preset] = objects
  if (preset === undefined) return error !== '' && html`<p class="problem" role="alert">${error}</p>`
  const { spec, status = {} } = preset
  return html`<${State}
    facts=${[
      ['Strength', spec.strength ?? 'Default'],
      ['Priority', spec.priority ?? 0],
      ['Mode', spec.mode ?? 'Apply'],
      ['Exclusive group', spec.exclusiveGroup],
      ['Revision', status.revision],
      ['Matched', status.matched],
      ['Applied', status.applied],
      ['Outdated', status.outdated],
    ]}
    conditions=${status.conditions ?? []}
  />`
}

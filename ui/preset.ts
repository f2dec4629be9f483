import { useEffect, useState } from 'preact/hooks'
import { Action } from './action.ts'
import { collectionPath, request, type Metadata } from './api.ts'
import type { Cluster } from './app.ts'
import { Editor } from './editor.ts'
import { failureOf, type Failure } from './failure.ts'
import { html } from './html.ts'
import { Impact, type PresetImpact } from './impact.ts'
import type { PresetPlural } from './kinds.ts'
import { missingPermission, useAllowed, type Access } from './permission.ts'
import { presetHref } from './place.ts'
import { Problem } from './problem.ts'
import { ProblemList } from './problem-list.ts'
import { State, type Condition } from './state.ts'
import { store, type Stored } from './store.ts'
import { readBy, useRead, type Read } from './text.ts'
import { useWatched } from './watched.ts'

interface PresetProps {
  readonly plural: PresetPlural
  /** Empty for a cluster preset. */
  readonly namespace: string
  /** Empty for a new one. */
  readonly name: string
  readonly cluster: Cluster
}

interface StoredText {
  readonly object?: Stored
  readonly text: string
  /** How often it was loaded. */
  readonly turn: number
}

const template = (plural: PresetPlural, namespace: string): string => `apiVersion: virtset.io/v1alpha1
kind: ${plural === 'virtualmachinepresets' ? 'VirtualMachinePreset' : 'ClusterVirtualMachinePreset'}
metadata:
  name: small${plural === 'virtualmachinepresets' ? `\n  namespace: ${namespace}` : ''}
spec:
  selector:
    matchLabels: {size: small}
  domain:
    vcpu: {value: 1}
`

/** A preset: its state, the VMs that it matches, and its text, whose impact is shown before it is applied. */
export function Preset({ plural, namespace, name, cluster }: PresetProps) {
  const [loaded, setLoaded] = useState<StoredText>()
  const [failure, setFailure] = useState<Failure>()
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    document.title = `${name === '' ? 'New preset' : name} · virtset`
    if (name === '') return setLoaded({ text: template(plural, namespace || cluster.namespace), turn })
    const query = new URLSearchParams({ plural, namespace, name })
    request('GET', `/manifest?${query}`).then(
      (answer) => setLoaded({ ...(answer as Omit<StoredText, 'turn'>), turn }),
      (error: unknown) => setFailure(failureOf(error)),
    )
  }, [turn])
  return html`
    <div class="bar">
      <a href=${`#/${plural}`} aria-label="Back to the list">←</a>
      <h1>${name === '' ? 'New preset' : name}</h1>
      <span class="muted">${namespace === '' && name !== '' ? 'cluster' : namespace}</span>
    </div>
    <${Problem} failure=${failure} />
    ${
      loaded !== undefined &&
      html`<${Edited} key=${loaded.turn} plural=${plural} loaded=${loaded} reload=${() => setTurn(turn + 1)} />`
    }
    ${name !== '' && html`<${PresetState} plural=${plural} namespace=${namespace} name=${name} />`}
  `
}

interface EditedProps {
  readonly plural: PresetPlural
  readonly loaded: StoredText
  readonly reload: () => void
}

function Edited({ plural, loaded, reload }: EditedProps) {
  const [text, setText] = useState(loaded.text)
  const { of, read } = useRead<Read>('/check-preset', text)
  const [impact, setImpact] = useState<{ readonly of: string; readonly found?: PresetImpact }>({ of: '' })
  const [busy, setBusy] = useState<'impact' | 'apply'>()
  const [failure, setFailure] = useState<Failure>()
  const [outcome, setOutcome] = useState('')
  const during = async (what: 'impact' | 'apply', work: () => Promise<void>) => {
    setBusy(what)
    setFailure(undefined)
    setOutcome('')
    await work().catch((error: unknown) => setFailure(failureOf(error)))
    setBusy(undefined)
  }
  const assess = () =>
    during('impact', async () => setImpact({ of: text, found: (await readBy('/impact', text)) as PresetImpact }))
  useEffect(() => {
    if (loaded.object !== undefined) void assess()
  }, [])
  const object = of === text ? read?.object : undefined
  const stored = loaded.object
  const isSame = stored !== undefined && (object === undefined || object.metadata.name === stored.metadata.name)
  const access: Access = {
    verb: isSame ? 'update' : 'create',
    group: 'virtset.io',
    resource: plural,
    ...(object?.metadata.namespace === undefined ? {} : { namespace: object.metadata.namespace }),
    ...(isSame && object?.metadata.name !== undefined ? { name: object.metadata.name } : {}),
  }
  const isAllowed = useAllowed(access)
  const reason =
    isAllowed === false
      ? missingPermission(access)
      : busy !== undefined
        ? `${busy} is in progress`
        : object === undefined
          ? 'correct the text first'
          : undefined
  const apply = () =>
    during('apply', async () => {
      if (object === undefined) return
      await store(plural, object, isSame ? stored : undefined)
      setOutcome(`${object.metadata.name} applied`)
      const { namespace = '', name = '' } = object.metadata
      if (isSame) reload()
      else location.hash = presetHref(plural, namespace, name)
    })
  return html`<div class="columns">
    <section class="card" aria-labelledby="text">
      <div class="bar">
        <h2 id="text">Text</h2>
        <span class="grow"></span>
        <span class="hidden" role="status">${outcome}</span>
        <${Action}
          label="Show impact"
          reason=${object === undefined ? 'correct the text first' : busy === undefined ? undefined : `${busy} is in progress`}
          run=${() => void assess()}
        >
          Show impact
        </${Action}>
        <${Action} class="main" label=${isSame ? 'Apply' : 'Create'} reason=${reason} run=${() => void apply()}>
          ${isSame ? 'Apply' : 'Create'}
        </${Action}>
      </div>
      <${Problem} failure=${failure} />
      <${Editor} label="Text of the preset" initial=${loaded.text} problems=${read?.problems ?? none} onText=${setText} />
      <${ProblemList} problems=${read?.problems ?? none} fine="No problems." />
    </section>
    <${Impact} impact=${impact.found} isBusy=${busy === 'impact'} isOld=${impact.of !== text} />
  </div>`
}

const none: readonly never[] = []

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

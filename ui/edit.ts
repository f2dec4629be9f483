import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Action } from './action.ts'
import { request } from './api.ts'
import { Editor } from './editor.ts'
import { failureOf, type Failure } from './failure.ts'
import { html } from './html.ts'
import { newTitles, pluralOf, type Plural } from './kinds.ts'
import { missingPermission, useAllowed, type Access } from './permission.ts'
import { Problem } from './problem.ts'
import { ProblemList } from './problem-list.ts'
import { useSchema } from './schema.ts'
import { isSame, store, type Stored } from './store.ts'
import { useRead, type Read } from './text.ts'

/** A text, and what the local server answers about it. */
export interface EditedText<T extends Read> {
  readonly text: string
  /** About this text or an earlier one. */
  readonly read?: T
  /** Whether the answer is about this text, which is not refused. */
  readonly isFine: boolean
}

interface EditProps<T extends Read> {
  readonly plural: Plural
  readonly namespace: string
  /** Empty for a new object. */
  readonly name: string
  /** The text of a new object. */
  readonly template: string
  /** Where the local server answers about the text. */
  readonly path: string
  /** Beside the text. */
  readonly aside: (edited: EditedText<T>) => ComponentChildren
  /** The address of what was created. */
  readonly hrefOf: (plural: Plural, namespace: string, name: string) => string
}

interface StoredText {
  readonly object?: Stored
  readonly text: string
  /** How often it was loaded. */
  readonly turn: number
}

/** An object as text, with an editor, its problems, and a button that creates or applies it. */
export function Edit<T extends Read>({ name, template, ...props }: EditProps<T>) {
  const { plural, namespace } = props
  const [loaded, setLoaded] = useState<StoredText>()
  const [failure, setFailure] = useState<Failure>()
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    document.title = `${name === '' ? newTitles[plural] : name} · virtset`
    if (name === '') return setLoaded({ text: template, turn })
    const query = new URLSearchParams({ plural, namespace, name })
    request('GET', `/manifest?${query}`).then(
      (answer) => setLoaded({ ...(answer as Omit<StoredText, 'turn'>), turn }),
      (error: unknown) => setFailure(failureOf(error)),
    )
  }, [turn])
  return html`
    <div class="bar">
      <a class="button quiet back" href=${`#/${plural}`} aria-label="Back to the list">←</a>
      <h1>${name === '' ? newTitles[plural] : name}</h1>
      <span class="muted">${namespace === '' && name !== '' ? 'cluster' : namespace}</span>
    </div>
    <${Problem} failure=${failure} />
    ${
      loaded !== undefined &&
      html`<${Edited} key=${loaded.turn} ...${props} loaded=${loaded} reload=${() => setTurn(turn + 1)} />`
    }
  `
}

interface EditedProps<T extends Read> extends Pick<EditProps<T>, 'plural' | 'path' | 'aside' | 'hrefOf'> {
  readonly loaded: StoredText
  readonly reload: () => void
}

function Edited<T extends Read>({ plural, path, aside, hrefOf, loaded, reload }: EditedProps<T>) {
  const [text, setText] = useState(loaded.text)
  const { of, read } = useRead<T>(path, text)
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<Failure>()
  const [outcome, setOutcome] = useState('')
  const object = of === text ? read?.object : undefined
  const stored = loaded.object
  const isStored = stored !== undefined && (object === undefined || isSame(object, stored))
  const kind = object === undefined ? plural : (pluralOf(object.kind) ?? plural)
  const access: Access = {
    verb: isStored ? 'update' : 'create',
    group: 'virtset.io',
    resource: kind,
    ...(object?.metadata.namespace === undefined ? {} : { namespace: object.metadata.namespace }),
    ...(isStored && object?.metadata.name !== undefined ? { name: object.metadata.name } : {}),
  }
  const isAllowed = useAllowed(access)
  const schema = useSchema(text)
  const apply = async () => {
    if (object === undefined) return
    setBusy(true)
    setFailure(undefined)
    setOutcome('')
    try {
      const { metadata } = await store(kind, object, isStored ? stored : undefined)
      const { namespace = '', name = '' } = metadata
      setOutcome(`${name} applied`)
      if (isStored) reload()
      else location.hash = hrefOf(kind, namespace, name)
    } catch (error) {
      setFailure(failureOf(error))
    }
    setBusy(false)
  }
  const word = isStored ? 'Apply' : 'Create'
  return html`<div class="columns">
    <section class="card" aria-labelledby="text">
      <div class="bar">
        <h2 id="text">Text</h2>
        <span class="grow"></span>
        <span class="hidden" role="status">${outcome}</span>
        <${Action} class="main" label=${word} reason=${whyNot(isAllowed, access, isBusy, object)} run=${() => void apply()}>
          ${word}
        </${Action}>
      </div>
      <${Problem} failure=${failure} />
      <${Editor} label="Text" initial=${loaded.text} problems=${read?.problems ?? none} schema=${schema} onText=${setText} />
      <${ProblemList} problems=${read?.problems ?? none} fine="No problems." />
    </section>
    ${aside({ text, isFine: object !== undefined, ...(read === undefined ? {} : { read }) })}
  </div>`
}

const none: readonly never[] = []

function whyNot(
  isAllowed: boolean | undefined,
  access: Access,
  isBusy: boolean,
  object: Read['object'],
): string | undefined {
  if (isAllowed === false) return missingPermission(access)
  if (isBusy) return 'it is in progress'
  return object === undefined ? 'correct the text first' : undefined
}

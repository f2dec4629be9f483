import { useEffect, useMemo, useState } from 'preact/hooks'
import { request } from './api.ts'
import { textOf } from './failure.ts'
import { html } from './html.ts'
import { found, kindOf, originText, treeOf, type Explanation, type Field, type Node } from './tree.ts'

interface SpecProps {
  readonly namespace: string
  readonly name: string
  readonly uid: string
  readonly generation: number
}

/** The spec of a stored VM. */
export function Spec({ namespace, name, uid, generation }: SpecProps) {
  const [explanation, setExplanation] = useState<Explanation>()
  const [error, setError] = useState('')
  useEffect(() => {
    const query = new URLSearchParams({ namespace, name })
    request('GET', `/explain?${query}`).then(
      (answer) => setExplanation(answer as Explanation),
      (failure) => setError(textOf(failure)),
    )
  }, [uid, generation])
  return html`<${Explained} title="Spec, and the origin of each field" explanation=${explanation} error=${error} />`
}

interface ExplainedProps {
  readonly title: string
  readonly explanation: Pick<Explanation, 'fields' | 'presets'> | undefined
  readonly error?: string
}

/** The fields of a VM as a tree with the origin of each, and the presets in scope. */
export function Explained({ title, explanation, error = '' }: ExplainedProps) {
  const [text, setText] = useState('')
  const [kind, setKind] = useState('')
  const fields = useMemo(() => found(explanation?.fields ?? [], text, kind), [explanation, text, kind])
  const isSearch = text !== '' || kind !== ''
  return html`<section class="card" aria-labelledby="spec">
    <div class="bar">
      <h2 id="spec">${title}</h2>
      <span class="count" role="status">${fields.length} of ${explanation?.fields.length ?? 0} fields</span>
      <span class="grow"></span>
      <input
        type="search"
        id="spec-search"
        aria-label="Search fields, values and origins"
        placeholder="Search fields, values and origins"
        value=${text}
        onInput=${({ target }: InputEvent) => target instanceof HTMLInputElement && setText(target.value)}
      />
      <select
        aria-label="Origin"
        value=${kind}
        onChange=${({ target }: Event) => target instanceof HTMLSelectElement && setKind(target.value)}
      >
        <option value="">Origin: all</option>
        ${['user', 'preset', 'default'].map((one) => html`<option value=${one}>${one}</option>`)}
      </select>
    </div>
    ${error !== '' && html`<p class="problem" role="alert">${error}</p>`}
    <div class="tree">
      ${treeOf(fields).map((node) => html`<${Branch} key=${`${isSearch}${node.path}`} node=${node} depth=${0} isOpen=${isSearch} />`)}
    </div>
    <${Presets} presets=${explanation?.presets ?? []} />
  </section>`
}

/** The presets in scope, and what each does. */
export const Presets = ({ presets }: Pick<Explanation, 'presets'>) =>
  presets.length > 0 &&
  html`<h3>Presets in scope</h3>
    <ul class="presets">
      ${presets.map(
        ({ preset, layer, priority, outcome, why }) =>
          html`<li>
            <b>${preset}</b> <span class=${`outcome ${outcome.replace(' ', '-')}`}>${outcome}</span>
            <span class="muted"
              >${layer}${layer === '' ? '' : `, priority ${priority}`}${why === undefined ? '' : `: ${why}`}</span
            >
          </li>`,
      )}
    </ul>`

interface BranchProps {
  readonly node: Node
  readonly depth: number
  readonly isOpen: boolean
}

/** Deeper levels are folded, unless a search shows few of them. */
const openLevels = 3

function Branch({ node: { key, field, children }, depth, isOpen }: BranchProps) {
  if (field !== undefined) return html`<${Leaf} name=${key} field=${field} />`
  return html`<details open=${isOpen || depth < openLevels}>
    <summary><span class="key">${key}</span></summary>
    ${children.map((node) => html`<${Branch} key=${node.path} node=${node} depth=${depth + 1} isOpen=${isOpen} />`)}
  </details>`
}

/** Longer ones scroll, as the manifest that kubectl puts into an annotation. */
const maxValueLength = 200

const Value = ({ text }: { readonly text: string }) =>
  text.length > maxValueLength
    ? html`<span class="value long" tabindex="0">${text}</span>`
    : html`<span class="value">${text}</span>`

const Leaf = ({ name, field }: { readonly name: string; readonly field: Field }) =>
  html`<div class="leaf" title=${field.path}>
    <span><span class="key">${name}</span>: <${Value} text=${JSON.stringify(field.value)} /></span>
    <span class=${`origin ${kindOf(field)}`}>${originText(field)}</span>
    ${field.overridden?.map(
      (lost) =>
        html`<span class="lost">
          overrode ${lost.value === undefined ? '' : html`<s>${JSON.stringify(lost.value)}</s> `}of ${originText(lost)}:
          ${lost.why}
        </span>`,
    )}
  </div>`

import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Cluster } from './cluster.ts'
import { Badge } from './badge.ts'
import type { Failure } from './failure.ts'
import { html } from './html.ts'
import { isNamespaced, isPresetPlural, kinds, newTitles, type Plural } from './kinds.ts'
import { textHref, vmHref } from './place.ts'
import { Power } from './power.ts'
import { Problem } from './problem.ts'
import { useRows } from './rows.ts'
import { ageText, selected, type Row } from './table.ts'

/** As in the style. Only the visible rows are elements, so that 10,000 of them do not lag. */
const rowHeight = 40
const spareRows = 8

/** Columns with few values, which a user chooses from a list. */
const choices = new Set(['Phase', 'Status', 'Node', 'Ready'])

/** The columns with a phase; that of configs is called as kubectl calls it. */
const phases = new Set(['Phase', 'Status'])

/** The column that opens the object, and those that are shown elsewhere. */
const hidden = new Set(['Name', 'Presets', 'Reason', 'Selector', 'Machine'])

export function List({ plural, cluster }: { readonly plural: Plural; readonly cluster: Cluster }) {
  const { columns, rows, state, error, namespace } = useRows(plural, cluster)
  const [text, setText] = useState('')
  const [failure, setFailure] = useState<Failure>()
  const [inNamespace, setNamespace] = useState('')
  const [cells, setCells] = useState<ReadonlyMap<number, string>>(new Map())
  useEffect(() => {
    document.title = `${kinds[plural]} · virtset`
  }, [plural])
  const shown = useMemo(
    () => selected(rows.values(), { text, namespace: inNamespace, cells }),
    [rows, text, inNamespace, cells],
  )
  const columnsShown = columns.flatMap((name, index) => (hidden.has(name) ? [] : [{ name, index }]))
  const valuesOf = (index: number) =>
    [...new Set([...rows.values()].map((row) => row.cells[index] ?? ''))].filter(Boolean).toSorted()
  const namespaces = [...new Set([...rows.values()].map((row) => row.namespace))].toSorted()
  return html`
    <div class="bar">
      <h1>${kinds[plural]}</h1>
      <span class="count" role="status">
        ${state === 'loading' ? 'Loading … ' : ''}${state !== 'loading' || rows.size > 0 ? `${shown.length} of ${rows.size}` : ''}
        ${namespace === undefined ? '' : ` in ${namespace}`}${state === 'waiting' ? ', connecting again …' : ''}
      </span>
      <span class="grow"></span>
      <input
        type="search"
        id="filter"
        aria-label="Filter by name, label or value"
        placeholder="Filter by name, label or value"
        value=${text}
        onInput=${(event: InputEvent) => setText(valueOf(event))}
      />
      ${
        namespaces.length > 1 &&
        html`<${Choice} label="Namespace" values=${namespaces} value=${inNamespace} choose=${setNamespace} />`
      }
      ${columnsShown
        .filter(({ name }) => choices.has(name))
        .map(
          ({ name, index }) =>
            html`<${Choice}
              label=${name}
              values=${valuesOf(index)}
              value=${cells.get(index) ?? ''}
              choose=${(value: string) => setCells(new Map(cells).set(index, value))}
            />`,
        )}
      <a class="button main" href=${textHref(plural, isNamespaced(plural) ? cluster.namespace : '', '')}
        >${newTitles[plural]}</a
      >
    </div>
    ${error !== '' && html`<p class="problem" role="alert">${error}</p>`}
    <${Problem} failure=${failure} />
    <${Rows}
      shown=${shown}
      columns=${columnsShown}
      plural=${plural}
      report=${setFailure}
      reasonAt=${columns.indexOf('Reason')}
      none=${state === 'loading' ? '' : rows.size === 0 ? 'There are none.' : 'None match the filter.'}
    />
  `
}

interface ChoiceProps {
  readonly label: string
  readonly values: readonly string[]
  readonly value: string
  readonly choose: (value: string) => void
}

const Choice = ({ label, values, value, choose }: ChoiceProps) => html`
  <select aria-label=${label} value=${value} onChange=${(event: Event) => choose(valueOf(event))}>
    <option value="">${label}: all</option>
    ${values.map((one) => html`<option value=${one}>${one}</option>`)}
  </select>
`

const valueOf = ({ target }: Event): string =>
  target instanceof HTMLInputElement || target instanceof HTMLSelectElement ? target.value : ''

interface RowsProps {
  readonly shown: readonly Row[]
  readonly columns: readonly { readonly name: string; readonly index: number }[]
  readonly plural: Plural
  readonly report: (failure: Failure | undefined) => void
  /** The column that explains the phase; -1 if there is none. */
  readonly reasonAt: number
  /** What to state if no row is shown. */
  readonly none: string
}

function Rows({ shown, columns, plural, report, reasonAt, none }: RowsProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const [[top, height], setView] = useState([0, 800])
  const [nowMs, setNow] = useState(Date.now())
  useEffect(() => {
    const measure = () => setView([scroller.current?.scrollTop ?? 0, scroller.current?.clientHeight ?? 800])
    // It grows with its rows, up to the window.
    const sized = new ResizeObserver(measure)
    if (scroller.current !== null) sized.observe(scroller.current)
    const clock = setInterval(() => setNow(Date.now()), 10_000)
    return () => {
      sized.disconnect()
      clearInterval(clock)
    }
  }, [])
  const first = Math.max(0, Math.floor(top / rowHeight) - spareRows)
  const last = Math.min(shown.length, Math.ceil((top + height) / rowHeight) + spareRows)
  const hasActions = plural === 'virtualmachineconfigs'
  const span = columns.length + 1 + Number(isNamespaced(plural)) + Number(hasActions)
  const phaseAt = columns.find(({ name }) => phases.has(name))?.index ?? -1
  const phaseOf = (row: Row) => row.cells[phaseAt] ?? ''
  const spacer = (count: number) =>
    count > 0 &&
    html`<tr aria-hidden="true">
      <td colspan=${span} style=${{ height: `${count * rowHeight}px` }}></td>
    </tr>`
  return html`<div
    class="scroller"
    ref=${scroller}
    onScroll=${() => setView([scroller.current?.scrollTop ?? 0, scroller.current?.clientHeight ?? 800])}
  >
    <table class="rows" aria-label=${kinds[plural]} aria-rowcount=${shown.length + 1}>
      <thead>
        <tr>
          <th scope="col">Name</th>
          ${isNamespaced(plural) && html`<th scope="col">Namespace</th>`}
          ${columns.map(({ name }) => html`<th scope="col">${name}</th>`)}
          ${hasActions && html`<th scope="col">Power</th>`}
        </tr>
      </thead>
      <tbody>
        ${spacer(first)}
        ${shown.slice(first, last).map(
          (row, index) =>
            html`<tr key=${row.uid} aria-rowindex=${first + index + 2} class=${row.isDeleted ? 'leaving' : ''}>
              <th scope="row"><${Name} row=${row} plural=${plural} /></th>
              ${isNamespaced(plural) && html`<td>${row.namespace}</td>`}
              ${columns.map(({ name, index: at }) => html`<td>${cellOf(name, row, { at, reasonAt, nowMs })}</td>`)}
              ${hasActions && html`<td><${Power} namespace=${row.namespace} name=${row.name} phase=${phaseOf(row)} report=${report} /></td>`}
            </tr>`,
        )}
        ${spacer(shown.length - last)}
      </tbody>
    </table>
    ${shown.length === 0 && none !== '' && html`<p class="empty">${none}</p>`}
  </div>`
}

/** A config and its VM have the same name. */
function Name({ row: { namespace, name }, plural }: { readonly row: Row; readonly plural: Plural }) {
  const isText = isPresetPlural(plural) || plural === 'virtualmachinegroups'
  return html`<a href=${isText ? textHref(plural, namespace, name) : vmHref(namespace, name)}>${name}</a>`
}

interface CellProps {
  readonly at: number
  readonly reasonAt: number
  readonly nowMs: number
}

function cellOf(name: string, row: Row, { at, reasonAt, nowMs }: CellProps) {
  const value = row.cells[at] ?? ''
  if (phases.has(name)) {
    return html`<${Badge} phase=${row.isDeleted ? 'Terminating' : value} />
      <span class="muted">${row.cells[reasonAt]}</span>`
  }
  return name === 'Age' ? ageText(row.created, nowMs) : value
}

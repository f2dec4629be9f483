import {
  autocompletion,
  completionKeymap,
  type CompletionContext,
  type CompletionResult,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint'
import { EditorState } from '@codemirror/state'
import { EditorView, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useRef } from 'preact/hooks'
import { html } from './html.ts'
import { suggest, type JsonSchema } from './suggest.ts'

/** What is wrong with the text, at a line that counts from 1. */
export interface TextProblem {
  readonly line: number
  readonly severity: 'error' | 'warning'
  readonly field: string
  readonly message: string
}

interface EditorProps {
  readonly label: string
  /** The first text; the editor keeps the text after that. */
  readonly initial: string
  readonly problems: readonly TextProblem[]
  /** What can be written; undefined until it is known. */
  readonly schema: JsonSchema | undefined
  readonly onText: (text: string) => void
}

const highlight = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], class: 'yaml-key' },
  { tag: tags.comment, class: 'yaml-comment' },
  { tag: [tags.punctuation, tags.separator, tags.meta], class: 'yaml-punctuation' },
])

/**
 * An editor for YAML that suggests keys and values as one types, or with Ctrl and Space. The tabulator indents; Escape,
 * then the tabulator leaves it.
 */
export function Editor({ label, initial, problems, schema, onText }: EditorProps) {
  const place = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(undefined)
  const report = useRef(onText)
  report.current = onText
  const allowed = useRef<JsonSchema>(undefined)
  allowed.current = schema
  useEffect(() => {
    if (place.current === null) return
    const opened = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: initial,
        extensions: [
          lineNumbers(),
          EditorView.lineWrapping,
          history(),
          bracketMatching(),
          yaml(),
          syntaxHighlighting(highlight),
          lintGutter(),
          autocompletion({ override: [(context) => suggestionsAt(context, allowed.current)], icons: false }),
          keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, ...lintKeymap, indentWithTab]),
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          EditorView.updateListener.of(({ docChanged, state }) => docChanged && report.current(state.doc.toString())),
        ],
      }),
    })
    view.current = opened
    return () => opened.destroy()
  }, [initial, label])
  useEffect(() => {
    if (view.current !== undefined) mark(view.current, problems)
  }, [problems])
  return html`<div class="editor" ref=${place}></div>`
}

function suggestionsAt(
  { state, pos, explicit }: CompletionContext,
  schema: JsonSchema | undefined,
): CompletionResult | null {
  if (schema === undefined) return null
  const { from, options } = suggest(schema, state.sliceDoc(0, pos), state.sliceDoc(pos))
  if (options.length === 0 || (from === pos && !explicit)) return null
  return {
    from,
    validFor: /^[\w./-]*$/,
    options: options.map(({ label, text, type, description }) => ({
      label,
      apply: text,
      detail: type,
      ...(description === '' ? {} : { info: description }),
    })),
  }
}

function mark(view: EditorView, problems: readonly TextProblem[]): void {
  const { doc } = view.state
  const diagnostics = problems.map(({ line, severity, field, message }): Diagnostic => {
    const { from, to, text } = doc.line(Math.min(Math.max(line, 1), doc.lines))
    const indent = text.length - text.trimStart().length
    return { from: from + indent, to, severity, message: field === '' ? message : `${field}: ${message}` }
  })
  view.dispatch(setDiagnostics(view.state, diagnostics))
}

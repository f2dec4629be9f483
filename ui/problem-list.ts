import type { TextProblem } from './editor.ts'
import { html } from './html.ts'

interface ProblemListProps {
  readonly problems: readonly TextProblem[]
  /** What to state if there are none. */
  readonly fine: string
}

/** The problems of a text below its editor, for readers who do not see the gutter. */
export const ProblemList = ({ problems, fine }: ProblemListProps) =>
  html`<div class="problems" role="status">
    ${problems.length === 0 && html`<p class="muted">${fine}</p>`}
    <ul>
      ${problems.map(
        ({ line, severity, field, message }) =>
          html`<li class=${severity}>
            <span class="muted">line ${line}</span>
            <span>${field !== '' && html`<code>${field}</code> `}${message}</span>
          </li>`,
      )}
    </ul>
  </div>`

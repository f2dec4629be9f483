import type { Failure } from './failure.ts'
import { html } from './html.ts'

/** A failure with all its causes; announced by screen readers. */
export const Problem = ({ failure }: { readonly failure: Failure | undefined }) =>
  failure !== undefined &&
  html`<div class="problem" role="alert">
    ${failure.message}
    ${
      failure.causes.length > 0 &&
      html`<ul>
        ${failure.causes.map(
          ({ field = '', message = '' }) => html`<li>${field !== '' && html`<code>${field}</code> `}${message}</li>`,
        )}
      </ul>`
    }
  </div>`

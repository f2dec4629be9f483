import { html } from './html.ts'

export interface Condition {
  readonly type: string
  readonly status: string
  readonly reason?: string
  readonly message?: string
}

interface StateProps {
  /** Names and values; those without a value are left out. */
  readonly facts: readonly (readonly [string, string | number | undefined])[]
  readonly conditions: readonly Condition[]
}

/** What the status of an object states. */
export const State = ({ facts, conditions }: StateProps) =>
  html`<section class="card" aria-labelledby="state">
    <h2 id="state">State</h2>
    <dl>
      ${facts
        .filter(([, value]) => value !== undefined && value !== '')
        .map(
          ([label, value]) =>
            html`<div class=${String(value).length > 40 ? 'wide' : ''}>
              <dt>${label}</dt>
              <dd>${value}</dd>
            </div>`,
        )}
    </dl>
    <${Conditions} conditions=${conditions} />
  </section>`

const Conditions = ({ conditions }: Pick<StateProps, 'conditions'>) =>
  conditions.length > 0 &&
  html`<h3>Conditions</h3>
    <ul class="conditions">
      ${conditions.map(
        ({ type, status, reason, message }) =>
          html`<li>
            <span class=${`mark ${status.toLowerCase()}`}>${status}</span>
            <span><b>${type}</b> ${reason} <span class="muted">${message}</span></span>
          </li>`,
      )}
    </ul>`

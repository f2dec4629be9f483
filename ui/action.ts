import type { ComponentChildren, Ref } from 'preact'
import { html } from './html.ts'

interface ActionProps {
  readonly label: string
  /** Why it cannot be used now; undefined if it can. */
  readonly reason?: string | undefined
  readonly class?: string
  readonly id?: string
  readonly button?: Ref<HTMLButtonElement>
  readonly run: () => void
  readonly children: ComponentChildren
}

/**
 * A button that states why it is disabled: as its title, which screen readers read as well. It keeps the focus while it
 * is disabled, which the attribute `disabled` would take away.
 */
export const Action = ({ label, reason, run, children, button, ...rest }: ActionProps) =>
  html`<button
    type="button"
    ...${rest}
    ref=${button}
    aria-label=${label}
    aria-disabled=${reason === undefined ? undefined : 'true'}
    title=${reason}
    onClick=${() => reason === undefined && run()}
  >
    ${children}
  </button>`

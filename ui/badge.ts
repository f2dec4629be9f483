import { html } from './html.ts'

export const Badge = ({ phase }: { readonly phase: string }) =>
  html`<span class=${`badge ${phase.toLowerCase()}`}>${phase}</span>`

import { html } from './html.ts'

/** Takes the keyboard from a guest, which gets every other key, the tabulator included. As in `kubectl vm console`. */
export const leaves = ({ ctrlKey, key }: Pick<KeyboardEvent, 'ctrlKey' | 'key'>): boolean => ctrlKey && key === ']'

export const LeaveHint = () => html`<span class="muted"><kbd>Ctrl+]</kbd> leaves</span>`

/** Templates of elements: text in them is always text, never HTML. */
export { html } from 'htm/preact'

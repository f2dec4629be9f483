import { attribute, children, element } from '../description.ts'
import { oneOf, onOff } from '../scalar.ts'

const cipher = element('One kind of key.', {
  name: attribute(oneOf('aes', 'dea'), 'The kind.'),
  state: attribute(onOff, 'Whether such keys may be wrapped.'),
})

export const keywrap = element('Which protected keys the guest may create (IBM Z).', {
  ciphers: children('cipher', cipher, 'Each kind of key.', { key: [['name']] }),
})

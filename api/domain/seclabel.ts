import { attribute, element, leaf } from './description.ts'
import { oneOf, text, yesNo } from './scalar.ts'

const host = { reach: 'host' } as const

export const seclabel = element('How a security module of the node confines QEMU.', {
  type: attribute(oneOf('dynamic', 'static', 'none'), 'A label made up at start, the one given, or none.', host),
  model: attribute(text(), 'The security module: `selinux`, `apparmor`, `dac`.', host),
  relabel: attribute(yesNo, 'Whether files of the VM are relabelled.', host),
  label: leaf(text(), 'The label, with `static`.', host),
  baselabel: leaf(text(), 'What a dynamic label is made from.', host),
  imagelabel: leaf(text(), 'The label of files while the VM runs.', { ...host, live: true }),
})

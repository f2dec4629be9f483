import { attribute, element, leaf } from '../description.ts'
import { oneOf, yesNo } from '../scalar.ts'
import { identifier, line } from '../text.ts'

const host = { reach: 'host' } as const

export const seclabel = element('How a security module of the node confines QEMU.', {
  type: attribute(oneOf('dynamic', 'static', 'none'), 'A label generated at start, a given one, or none.', host),
  model: attribute(identifier, 'The security module: `selinux`, `apparmor`, `dac`.', host),
  relabel: attribute(yesNo, 'Whether files of the VM are relabelled.', host),
  label: leaf(line(), 'The label, with `static`.', host),
  baselabel: leaf(line(), 'The base of a dynamic label.', host),
  imagelabel: leaf(line(), 'The label of files while the VM runs.', { ...host, live: true }),
})

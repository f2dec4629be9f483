import { attribute, element, leaf } from './description.ts'
import { text, yesNo } from './scalar.ts'

const host = { reach: 'host' } as const

export const sourceSeclabel = element('How a security module of the node labels this one source.', {
  model: attribute(text(), 'The security module: `selinux`, `apparmor`, `dac`; all of them when absent.', host),
  relabel: attribute(yesNo, 'Whether the source is relabelled.', host),
  labelskip: attribute(yesNo, 'Told by libvirt: the source could not be labelled.', { ...host, live: true }),
  label: leaf(text(), 'The label.', host),
})

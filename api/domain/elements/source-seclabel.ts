import { attribute, element, leaf } from '../description.ts'
import { yesNo } from '../scalar.ts'
import { identifier, line } from '../text.ts'

const host = { reach: 'host' } as const

export const sourceSeclabel = element('How a security module of the node labels this source.', {
  model: attribute(identifier, 'The security module: `selinux`, `apparmor`, `dac`; all of them if absent.', host),
  relabel: attribute(yesNo, 'Whether the source is relabelled.', host),
  labelskip: attribute(yesNo, 'Reported by libvirt: the source could not be labeled.', { ...host, live: true }),
  label: leaf(line(), 'The label.', host),
})

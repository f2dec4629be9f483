import { attribute, child, element, leaf } from './description.ts'
import { text } from './scalar.ts'

const host = { reach: 'host' } as const

const fibrechannel = element('How the fabric knows this VM.', {
  appid: attribute(text({ maxLength: 127 }), 'The identifier that marks its frames.', host),
})

export const resource = element('Where the node accounts for the VM.', {
  partition: leaf(text(), 'The resource partition (a cgroup) of the node.', host),
  fibrechannel: child(fibrechannel, 'How the fabric knows this VM.', host),
})

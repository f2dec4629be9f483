import { attribute, child, element, leaf } from '../description.ts'
import { anyPath, printable } from '../text.ts'

const host = { reach: 'host' } as const

const fibrechannel = element('How the fabric knows this VM.', {
  appid: attribute(printable(127), 'The identifier that marks its frames.', host),
})

export const resource = element('Where the node accounts for the VM.', {
  partition: leaf(anyPath, 'The resource partition (a cgroup) of the node.', host),
  fibrechannel: child(fibrechannel, 'How the fabric knows this VM.', host),
})

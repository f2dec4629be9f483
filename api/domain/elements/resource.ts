import { attribute, child, element, leaf } from '../description.ts'
import { anyPath, printable } from '../text.ts'

const host = { reach: 'host' } as const

const fibrechannel = element('The identity of this VM in the Fibre Channel fabric.', {
  appid: attribute(printable(127), 'The identifier that marks its frames.', host),
})

export const resource = element("How the node accounts for the VM's resources.", {
  partition: leaf(anyPath, 'The resource partition (a cgroup) of the node.', host),
  fibrechannel: child(fibrechannel, 'The identity of this VM in the Fibre Channel fabric.', host),
})

import { attribute, child, children, element } from '../description.ts'
import { maxNumaCells } from '../limits.ts'
import { cpuset, oneOf, uint32 } from '../scalar.ts'

const host = { reach: 'host' } as const

const mode = attribute(
  oneOf('strict', 'preferred', 'interleave', 'restrictive'),
  'How strictly memory is allocated on these nodes.',
  host,
)

const memory = element('Placement of the memory of the whole guest.', {
  mode,
  nodeset: attribute(cpuset, 'NUMA nodes of the host.', host),
  placement: attribute(oneOf('static', 'auto'), '`static` uses `nodeset`, `auto` the advice of numad.', host),
})

const memnode = element('Placement of the memory of one NUMA node of the guest.', {
  cellid: attribute(uint32, 'The NUMA node of the guest.', host),
  mode,
  nodeset: attribute(cpuset, 'NUMA nodes of the host.', host),
})

export const numatune = element("The host's NUMA nodes that the guest's memory is allocated on.", {
  memory: child(memory, 'For the whole guest.', host),
  memnodes: children('memnode', memnode, 'For individual NUMA nodes of the guest.', {
    ...host,
    key: [['cellid']],
    maxItems: maxNumaCells,
  }),
})

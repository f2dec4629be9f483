import { attribute, child, children, element } from '../description.ts'
import { maxNumaCells } from '../limits.ts'
import { cpuset, oneOf, uint32 } from '../scalar.ts'

const host = { reach: 'host' } as const

const mode = attribute(
  oneOf('strict', 'preferred', 'interleave', 'restrictive'),
  'How strictly memory stays on the nodes named.',
  host,
)

const memory = element('Where the memory of the whole guest lies.', {
  mode,
  nodeset: attribute(cpuset, 'NUMA nodes of the host.', host),
  placement: attribute(oneOf('static', 'auto'), '`static` uses `nodeset`, `auto` the advice of numad.', host),
})

const memnode = element('Where the memory of one NUMA node of the guest lies.', {
  cellid: attribute(uint32, 'The NUMA node of the guest.', host),
  mode,
  nodeset: attribute(cpuset, 'NUMA nodes of the host.', host),
})

export const numatune = element("On which of the host's NUMA nodes the guest's memory lies.", {
  memory: child(memory, 'For the whole guest.', host),
  memnodes: children('memnode', memnode, 'For single NUMA nodes of the guest.', {
    ...host,
    key: [['cellid']],
    maxItems: maxNumaCells,
  }),
})

import { list } from './device.ts'
import { required } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const vhostuserMemory: Rule = {
  id: 'vhostuser-memory',
  description: 'A process that serves an interface sees the memory of the guest, which is shared for that.',
  *check({ domain }) {
    const cells = domain.cpu?.numa?.cells ?? []
    const isShared =
      domain.memoryBacking?.access?.mode === 'shared' ||
      (cells.length > 0 && cells.every(({ memAccess }) => memAccess === 'shared'))
    if (isShared) return
    for (const [index, { type }] of list(domain, 'interfaces').entries()) {
      if (type !== 'vhostuser') continue
      const message = `must be shared, since devices.interfaces[${index}] is of type ${type}`
      yield required('spec.domain.memoryBacking.access.mode', message, 'shared, with source.type memfd')
    }
  },
  example: example(
    {
      devices: { interfaces: [{ type: 'vhostuser', source: { type: 'unix', path: '/tmp/v.sock', mode: 'client' } }] },
    },
    {
      memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } },
      devices: { interfaces: [{ type: 'vhostuser', source: { type: 'unix', path: '/tmp/v.sock', mode: 'client' } }] },
    },
  ),
}

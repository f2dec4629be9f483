import type { Domain } from '../../api/domain/domain.ts'
import { list } from './device.ts'
import { invalid } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

/** Whether all memory is shared. A NUMA node without `memAccess` follows `memoryBacking`. */
const isShared = ({ memoryBacking, cpu }: Domain): boolean => {
  const isAll = memoryBacking?.access?.mode === 'shared'
  const cells = cpu?.numa?.cells ?? []
  return cells.length === 0
    ? isAll
    : cells.every(({ memAccess }) => (memAccess === undefined ? isAll : memAccess === 'shared'))
}

const served: ReadonlySet<string | undefined> = new Set(['vhostuser', 'vhostvdpa'])

export const sharedMemory: Rule = {
  id: 'shared-memory',
  description:
    'virtiofs, vhost-user and vhost-vdpa require shared memory, because another process or device reads the memory of the guest.',
  *check({ domain }): Iterable<Finding> {
    if (isShared(domain)) return
    const message = 'requires shared memory, which the serving process can read'
    const suggestion = 'memoryBacking: {source: {type: memfd}, access: {mode: shared}}'
    const at = 'spec.domain.devices'
    for (const [index, { driver }] of list(domain, 'filesystems').entries()) {
      if (driver?.type === 'virtiofs')
        yield invalid(`${at}.filesystems[${index}].driver.type`, 'virtiofs', message, suggestion)
    }
    for (const [index, { type }] of list(domain, 'disks').entries()) {
      if (served.has(type)) yield invalid(`${at}.disks[${index}].type`, type, message, suggestion)
    }
    for (const [index, { type }] of list(domain, 'interfaces').entries()) {
      if (type === 'vhostuser') yield invalid(`${at}.interfaces[${index}].type`, type, message, suggestion)
    }
  },
  example: example(
    { devices: { filesystems: [{ driver: { type: 'virtiofs' }, source: { dir: '/d' }, target: { dir: 't' } }] } },
    {
      memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } },
      devices: { filesystems: [{ driver: { type: 'virtiofs' }, source: { dir: '/d' }, target: { dir: 't' } }] },
    },
  ),
}

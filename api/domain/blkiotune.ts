import { children, element, leaf } from './description.ts'
import { path, uint32, uint64 } from './scalar.ts'

const host = { reach: 'host' } as const

const device = element('Limits for one block device of the node.', {
  path: leaf(path, 'The block device on the node.', host),
  weight: leaf(uint32, 'Weight against other VMs, 10 to 1000.', host),
  readIopsSec: leaf(uint32, 'Reads a second.', { ...host, xml: 'read_iops_sec' }),
  writeIopsSec: leaf(uint32, 'Writes a second.', { ...host, xml: 'write_iops_sec' }),
  readBytesSec: leaf(uint64, 'Bytes read a second.', { ...host, xml: 'read_bytes_sec' }),
  writeBytesSec: leaf(uint64, 'Bytes written a second.', { ...host, xml: 'write_bytes_sec' }),
})

export const blkiotune = element('How much of the block devices of the node the VM may use.', {
  weight: leaf(uint32, 'Weight against other VMs of the node, 10 to 1000.', host),
  devices: children('device', device, 'Limits for single devices.', { ...host, key: [['path']] }),
})

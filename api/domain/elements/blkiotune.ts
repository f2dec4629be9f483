import { children, element, leaf } from '../description.ts'
import { integer, path, uint32, uint64 } from '../scalar.ts'

const host = { reach: 'host' } as const

/** The limits of libvirt's schema. */
const weight = integer({ min: 100, max: 1000 })

const device = element('Limits for one block device of the node.', {
  path: leaf(path, 'The block device on the node.', host),
  weight: leaf(weight, 'Weight against other VMs.', host),
  readIopsSec: leaf(uint32, 'Reads a second.', { ...host, xml: 'read_iops_sec' }),
  writeIopsSec: leaf(uint32, 'Writes a second.', { ...host, xml: 'write_iops_sec' }),
  readBytesSec: leaf(uint64, 'Bytes read a second.', { ...host, xml: 'read_bytes_sec' }),
  writeBytesSec: leaf(uint64, 'Bytes written a second.', { ...host, xml: 'write_bytes_sec' }),
})

export const blkiotune = element('How much of the block devices of the node the VM may use.', {
  weight: leaf(weight, 'Weight against other VMs of the node.', host),
  devices: children('device', device, 'Limits for single devices.', { ...host, key: [['path']] }),
})

import { children, element, leaf } from '../description.ts'
import { integer, path, uint32, uint64 } from '../scalar.ts'

const host = { reach: 'host' } as const

/** The limits of libvirt's schema. */
const weight = integer({ min: 100, max: 1000 })

const device = element('Limits for one block device of the node.', {
  path: leaf(path, 'The block device on the node.', host),
  weight: leaf(weight, 'The weight relative to other VMs.', host),
  readIopsSec: leaf(uint32, 'Reads per second.', { ...host, xml: 'read_iops_sec' }),
  writeIopsSec: leaf(uint32, 'Writes per second.', { ...host, xml: 'write_iops_sec' }),
  readBytesSec: leaf(uint64, 'Bytes read per second.', { ...host, xml: 'read_bytes_sec' }),
  writeBytesSec: leaf(uint64, 'Bytes written per second.', { ...host, xml: 'write_bytes_sec' }),
})

export const blkiotune = element("Limits on the VM's use of the node's block devices.", {
  weight: leaf(weight, 'The weight relative to other VMs on the node.', host),
  devices: children('device', device, 'Limits for individual devices.', { ...host, key: [['path']] }),
})

import { children, element, leaf } from '../description.ts'
import { maxOnSharedBuses } from '../limits.ts'
import { uint64 } from '../scalar.ts'
import { identifier } from '../text.ts'

const limit = (xml: string, description: string) => leaf(uint64, description, { xml })

const throttlegroup = element('Limits that several disks share.', {
  totalBytesSec: limit('total_bytes_sec', 'Bytes per second, read and written.'),
  readBytesSec: limit('read_bytes_sec', 'Bytes per second, read.'),
  writeBytesSec: limit('write_bytes_sec', 'Bytes per second, written.'),
  totalIopsSec: limit('total_iops_sec', 'Operations per second.'),
  readIopsSec: limit('read_iops_sec', 'Reads per second.'),
  writeIopsSec: limit('write_iops_sec', 'Writes per second.'),
  totalBytesSecMax: limit('total_bytes_sec_max', 'Bytes per second, read and written, in a burst.'),
  readBytesSecMax: limit('read_bytes_sec_max', 'Bytes per second, read, in a burst.'),
  writeBytesSecMax: limit('write_bytes_sec_max', 'Bytes per second, written, in a burst.'),
  totalIopsSecMax: limit('total_iops_sec_max', 'Operations per second in a burst.'),
  readIopsSecMax: limit('read_iops_sec_max', 'Reads per second in a burst.'),
  writeIopsSecMax: limit('write_iops_sec_max', 'Writes per second in a burst.'),
  sizeIopsSec: limit('size_iops_sec', 'The size in bytes that counts as one operation.'),
  groupName: leaf(identifier, 'The name by which disks refer to it.', { xml: 'group_name' }),
  totalBytesSecMaxLength: limit('total_bytes_sec_max_length', 'Seconds that a burst of bytes may last.'),
  readBytesSecMaxLength: limit('read_bytes_sec_max_length', 'Seconds that a burst of bytes read may last.'),
  writeBytesSecMaxLength: limit('write_bytes_sec_max_length', 'Seconds that a burst of bytes written may last.'),
  totalIopsSecMaxLength: limit('total_iops_sec_max_length', 'Seconds that a burst of operations may last.'),
  readIopsSecMaxLength: limit('read_iops_sec_max_length', 'Seconds that a burst of reads may last.'),
  writeIopsSecMaxLength: limit('write_iops_sec_max_length', 'Seconds that a burst of writes may last.'),
})

export const throttlegroups = element('Limits that several disks share.', {
  throttlegroups: children('throttlegroup', throttlegroup, 'Each group.', {
    key: [['groupName']],
    maxItems: maxOnSharedBuses,
  }),
})

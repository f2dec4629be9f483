import { element, leaf } from '../description.ts'
import { uint64 } from '../scalar.ts'
import { line } from '../text.ts'

const rate = (xml: string, what: string) => leaf(uint64, `${what}; 0 or absent: no limit.`, { xml })
const burst = (xml: string, what: string) => leaf(uint64, what, { xml })

export const iotune = element("Limits on the guest's reads and writes.", {
  totalBytesSec: rate('total_bytes_sec', 'Bytes per second, both directions'),
  readBytesSec: rate('read_bytes_sec', 'Bytes read per second'),
  writeBytesSec: rate('write_bytes_sec', 'Bytes written per second'),
  totalIopsSec: rate('total_iops_sec', 'Operations per second, both directions'),
  readIopsSec: rate('read_iops_sec', 'Read operations per second'),
  writeIopsSec: rate('write_iops_sec', 'Write operations per second'),
  totalBytesSecMax: burst('total_bytes_sec_max', 'Bytes per second in a burst, both directions.'),
  readBytesSecMax: burst('read_bytes_sec_max', 'Bytes read per second in a burst.'),
  writeBytesSecMax: burst('write_bytes_sec_max', 'Bytes written per second in a burst.'),
  totalIopsSecMax: burst('total_iops_sec_max', 'Operations per second in a burst, both directions.'),
  readIopsSecMax: burst('read_iops_sec_max', 'Read operations per second in a burst.'),
  writeIopsSecMax: burst('write_iops_sec_max', 'Write operations per second in a burst.'),
  sizeIopsSec: burst('size_iops_sec', 'The number of bytes that count as one operation.'),
  groupName: leaf(line(255), 'Disks of one group share the limits.', { xml: 'group_name' }),
  totalBytesSecMaxLength: burst('total_bytes_sec_max_length', 'The maximum length of such a burst in seconds.'),
  readBytesSecMaxLength: burst('read_bytes_sec_max_length', 'The maximum length of such a burst in seconds.'),
  writeBytesSecMaxLength: burst('write_bytes_sec_max_length', 'The maximum length of such a burst in seconds.'),
  totalIopsSecMaxLength: burst('total_iops_sec_max_length', 'The maximum length of such a burst in seconds.'),
  readIopsSecMaxLength: burst('read_iops_sec_max_length', 'The maximum length of such a burst in seconds.'),
  writeIopsSecMaxLength: burst('write_iops_sec_max_length', 'The maximum length of such a burst in seconds.'),
})

import { element, leaf } from '../description.ts'
import { uint64 } from '../scalar.ts'
import { line } from '../text.ts'

const rate = (xml: string, what: string) => leaf(uint64, `${what}; 0 or absent: no limit.`, { xml })
const burst = (xml: string, what: string) => leaf(uint64, what, { xml })

export const iotune = element('Limits of what the guest reads and writes.', {
  totalBytesSec: rate('total_bytes_sec', 'Bytes a second, both ways'),
  readBytesSec: rate('read_bytes_sec', 'Bytes a second read'),
  writeBytesSec: rate('write_bytes_sec', 'Bytes a second written'),
  totalIopsSec: rate('total_iops_sec', 'Operations a second, both ways'),
  readIopsSec: rate('read_iops_sec', 'Read operations a second'),
  writeIopsSec: rate('write_iops_sec', 'Write operations a second'),
  totalBytesSecMax: burst('total_bytes_sec_max', 'Bytes a second in a burst, both ways.'),
  readBytesSecMax: burst('read_bytes_sec_max', 'Bytes a second read in a burst.'),
  writeBytesSecMax: burst('write_bytes_sec_max', 'Bytes a second written in a burst.'),
  totalIopsSecMax: burst('total_iops_sec_max', 'Operations a second in a burst, both ways.'),
  readIopsSecMax: burst('read_iops_sec_max', 'Read operations a second in a burst.'),
  writeIopsSecMax: burst('write_iops_sec_max', 'Write operations a second in a burst.'),
  sizeIopsSec: burst('size_iops_sec', 'Bytes that count as one operation.'),
  groupName: leaf(line(255), 'Disks of one group share the limits.', { xml: 'group_name' }),
  totalBytesSecMaxLength: burst('total_bytes_sec_max_length', 'Seconds that such a burst may last.'),
  readBytesSecMaxLength: burst('read_bytes_sec_max_length', 'Seconds that such a burst may last.'),
  writeBytesSecMaxLength: burst('write_bytes_sec_max_length', 'Seconds that such a burst may last.'),
  totalIopsSecMaxLength: burst('total_iops_sec_max_length', 'Seconds that such a burst may last.'),
  readIopsSecMaxLength: burst('read_iops_sec_max_length', 'Seconds that such a burst may last.'),
  writeIopsSecMaxLength: burst('write_iops_sec_max_length', 'Seconds that such a burst may last.'),
})

import { scaled } from '../../api/domain/size.ts'
import { eachDevice } from './device.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const inBytes = { value: 'value', unit: 'unit', absent: 'bytes', to: 'bytes' } as const

const shmem = eachDevice('shmems')(
  'shmem',
  'Shared memory has a name, a size that is a power of two and 1 MiB at least, and a server if it rings.',
  ({ name, model, server, msi }, at, { spec }, index) => {
    const findings: Finding[] = []
    const type = model?.type
    if (name === undefined || name.includes('/') || name === '.' || name === '..') {
      findings.push(
        name === undefined
          ? required(`${at}.name`, 'must be given')
          : invalid(`${at}.name`, name, 'must be a name without slash'),
      )
    }
    if (type === undefined)
      findings.push(
        required(`${at}.model.type`, 'must be given: the plain ivshmem device is no longer in QEMU', 'ivshmem-plain'),
      )
    if (type === 'ivshmem')
      findings.push(unsupported(`${at}.model.type`, type, 'is no longer in QEMU', 'did you mean "ivshmem-plain"?'))
    if (type === 'ivshmem-plain' && server)
      findings.push(forbidden(`${at}.server`, undefined, 'may not be given for ivshmem-plain'))
    if (type === 'ivshmem-doorbell' && !server)
      findings.push(required(`${at}.server`, 'must be given for ivshmem-doorbell'))
    else if (msi && !server)
      findings.push(forbidden(`${at}.msi`, undefined, 'may be given with a server only, through which interrupts go'))
    const written = spec.domain.devices?.shmems?.[index]?.size
    // libvirt's own unit for it is MiB: what is less than one would not be seen there.
    if (type === 'ivshmem-doorbell' && written !== undefined)
      findings.push(forbidden(`${at}.size`, undefined, 'may not be given for ivshmem-doorbell: the server says it'))
    const bytes = scaled(inBytes, written?.value, written?.unit)?.value
    if (bytes !== undefined && bytes > 0n && (bytes < 1024n ** 2n || (bytes & (bytes - 1n)) !== 0n)) {
      findings.push(invalid(`${at}.size.value`, written?.value, 'must be a power of two, and 1 MiB at least'))
    }
    return findings
  },
  example(
    { devices: { shmems: [{ name: 's', model: { type: 'ivshmem-plain' }, size: { unit: 'K', value: 16 } }] } },
    { devices: { shmems: [{ name: 's', model: { type: 'ivshmem-plain' }, size: { unit: 'M', value: 16 } }] } },
  ),
)

export const shmemRules: readonly Rule[] = [shmem]

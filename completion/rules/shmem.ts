import { scaled } from '../../api/domain/elements/size.ts'
import { eachDevice } from './device.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const inBytes = { value: 'value', unit: 'unit', absent: 'bytes', to: 'bytes' } as const

const shmem = eachDevice('shmems')(
  'shmem',
  'Shared memory must have a name, a model, and a size that is a power of two of at least 1 MiB; `ivshmem-doorbell` requires a server.',
  ({ name, model, server, msi }, at, { spec }, index) => {
    const findings: Finding[] = []
    const type = model?.type
    if (name === undefined) findings.push(required(`${at}.name`, 'must be set'))
    if (type === undefined)
      findings.push(
        required(`${at}.model.type`, 'must be set: QEMU no longer supports the default, ivshmem', 'e.g. ivshmem-plain'),
      )
    if (type === 'ivshmem')
      findings.push(
        unsupported(`${at}.model.type`, type, 'is no longer supported by QEMU', 'did you mean "ivshmem-plain"?'),
      )
    if (type === 'ivshmem-plain' && server)
      findings.push(forbidden(`${at}.server`, undefined, 'must not be set for ivshmem-plain'))
    if (type === 'ivshmem-doorbell' && !server)
      findings.push(required(`${at}.server`, 'must be set for ivshmem-doorbell'))
    else if (msi && !server)
      findings.push(forbidden(`${at}.msi`, undefined, 'can only be set with a server, which delivers the interrupts'))
    const written = spec.domain.devices?.shmems?.[index]?.size
    // Checked as written: libvirt's unit is MiB, so the canonical spelling hides a size of less than 1 MiB.
    if (type === 'ivshmem-doorbell' && server && written !== undefined)
      findings.push(
        forbidden(`${at}.size`, undefined, 'must not be set for ivshmem-doorbell, where the server defines it'),
      )
    const bytes = scaled(inBytes, written?.value, written?.unit)?.value ?? 0n
    if (bytes > 0n && (bytes < 1024n ** 2n || (bytes & (bytes - 1n)) !== 0n)) {
      findings.push(invalid(`${at}.size.value`, written?.value, 'must be a power of two and at least 1 MiB'))
    }
    return findings
  },
  example(
    { devices: { shmems: [{ name: 's', model: { type: 'ivshmem-plain' }, size: { unit: 'K', value: 16 } }] } },
    { devices: { shmems: [{ name: 's', model: { type: 'ivshmem-plain' }, size: { unit: 'M', value: 16 } }] } },
  ),
)

export const shmemRules: readonly Rule[] = [shmem]

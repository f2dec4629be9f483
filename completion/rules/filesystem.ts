import { eachDevice } from './device.ts'
import { forbidden, forbidEach, invalid, required, unsupported } from './finding.ts'
import { example, type Finding } from './rule.ts'

const notVirtiofs = ['driver.wrpolicy', 'driver.format', 'multidevs', 'model']

export const filesystem = eachDevice('filesystems')(
  'filesystem',
  'A file system must have a source and a target, and only the options of its driver.',
  ({ driver, target, source, accessmode, fmode, dmode, binary, multidevs, model, boot }, at) => {
    const findings: Finding[] = []
    const type = driver?.type
    if (!target?.dir && source?.socket === undefined)
      findings.push(required(`${at}.target.dir`, 'must be set: the tag that the guest mounts'))
    if (source === undefined || Object.keys(source).length === 0)
      findings.push(required(`${at}.source.dir`, 'must be set: the directory to share'))
    if (type === 'loop' || type === 'nbd')
      findings.push(unsupported(`${at}.driver.type`, type, 'is not supported by QEMU'))
    if (type === 'virtiofs') {
      if (accessmode !== undefined && accessmode !== 'passthrough')
        findings.push(invalid(`${at}.accessmode`, accessmode, 'must be passthrough for virtiofs'))
      findings.push(...forbidEach({ driver, multidevs, model }, at, notVirtiofs, 'must not be set for virtiofs'))
    } else {
      if (driver?.queue !== undefined)
        findings.push(forbidden(`${at}.driver.queue`, driver.queue, 'can only be set for virtiofs'))
      if (boot !== undefined) findings.push(forbidden(`${at}.boot`, undefined, 'can only be set for virtiofs'))
      if (binary !== undefined) findings.push(forbidden(`${at}.binary`, undefined, 'can only be set for virtiofs'))
    }
    for (const [key, value] of Object.entries({ fmode, dmode })) {
      if (value !== undefined && accessmode !== 'mapped')
        findings.push(forbidden(`${at}.${key}`, value, 'can only be set with accessmode mapped'))
    }
    return findings
  },
  example(
    { devices: { filesystems: [{ source: { dir: '/d' } }] } },
    { devices: { filesystems: [{ source: { dir: '/d' }, target: { dir: 't' } }] } },
  ),
)

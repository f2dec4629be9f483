import { eachDevice } from './device.ts'
import { forbidden, forbidEach, invalid, required, unsupported } from './finding.ts'
import { example, type Finding } from './rule.ts'

const notVirtiofs = ['driver.wrpolicy', 'driver.format', 'multidevs', 'model']

export const filesystem = eachDevice('filesystems')(
  'filesystem',
  'A file system has a target, and options of the way in which it is shared.',
  ({ driver, target, source, accessmode, fmode, dmode, binary, multidevs, model, boot }, at) => {
    const findings: Finding[] = []
    const type = driver?.type
    if (target?.dir === undefined && source?.socket === undefined)
      findings.push(required(`${at}.target.dir`, 'must be given: the tag by which the guest mounts it'))
    if (source === undefined) findings.push(required(`${at}.source.dir`, 'must be given: the directory that is shared'))
    if (type === 'loop' || type === 'nbd')
      findings.push(unsupported(`${at}.driver.type`, type, 'is no way in which QEMU shares files'))
    if (type === 'virtiofs') {
      if (accessmode !== undefined && accessmode !== 'passthrough')
        findings.push(invalid(`${at}.accessmode`, accessmode, 'must be passthrough for virtiofs'))
      findings.push(...forbidEach({ driver, multidevs, model }, at, notVirtiofs, 'may not be given for virtiofs'))
    } else {
      if (driver?.queue !== undefined)
        findings.push(forbidden(`${at}.driver.queue`, driver.queue, 'may be given for virtiofs only'))
      if (boot !== undefined) findings.push(forbidden(`${at}.boot`, undefined, 'may be given for virtiofs only'))
      if (binary !== undefined) findings.push(forbidden(`${at}.binary`, undefined, 'may be given for virtiofs only'))
    }
    for (const [key, value] of Object.entries({ fmode, dmode })) {
      if (value !== undefined && accessmode !== 'mapped')
        findings.push(forbidden(`${at}.${key}`, value, 'may be given with accessmode mapped only'))
    }
    return findings
  },
  example(
    { devices: { filesystems: [{ source: { dir: '/d' } }] } },
    { devices: { filesystems: [{ source: { dir: '/d' }, target: { dir: 't' } }] } },
  ),
)

import { eachDevice, type DeviceOf } from './device.ts'
import { forbidden, forbidEach, invalid, required, unsupported } from './finding.ts'
import { example, type Finding } from './rule.ts'

const notVirtiofs = ['driver.wrpolicy', 'driver.format', 'multidevs', 'model']
/** Of the node's own virtiofsd, which the one in a launcher pod has no use for or does not have. */
const notInPod = ['idmap', 'binary.sandbox', 'binary.lock']
/** With fewer than 610 files, virtiofsd does not start. */
const fewestFiles = 1000

export const filesystem = eachDevice('filesystems')(
  'filesystem',
  'A file system must have a source and a target, and only the options of its driver.',
  (filesystem, at, { isInPod }) => {
    const { driver, target, source, accessmode, fmode, dmode, binary, multidevs, model, boot } = filesystem
    const findings: Finding[] = []
    const type = driver?.type
    if (!target?.dir && source?.socket === undefined)
      findings.push(required(`${at}.target.dir`, 'must be set: the tag that the guest mounts'))
    if (filesystem.type === 'volume') findings.push(...checkVolume(filesystem, at))
    else if (source?.volume !== undefined)
      findings.push(forbidden(`${at}.source.volume`, source.volume, 'can only be set for type volume'))
    else if (source === undefined || Object.keys(source).length === 0)
      findings.push(required(`${at}.source.dir`, 'must be set: the directory to share'))
    if (type === 'loop' || type === 'nbd')
      findings.push(unsupported(`${at}.driver.type`, type, 'is not supported by QEMU'))
    if (type === 'virtiofs') {
      if (accessmode !== undefined && accessmode !== 'passthrough')
        findings.push(invalid(`${at}.accessmode`, accessmode, 'must be passthrough for virtiofs'))
      findings.push(...forbidEach({ driver, multidevs, model }, at, notVirtiofs, 'must not be set for virtiofs'))
      if (isInPod === true && source?.socket === undefined) {
        findings.push(...forbidEach(filesystem, at, notInPod, 'is not supported: the launcher pod confines virtiofsd'))
        const max = Number(binary?.openfiles?.max ?? 0)
        if (max > 0 && max < fewestFiles)
          findings.push(
            invalid(`${at}.binary.openfiles.max`, max, `must be at least ${fewestFiles}, or 0 for the default`),
          )
      }
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

function checkVolume({ driver, source }: DeviceOf<'filesystems'>, at: string): Finding[] {
  const findings = forbidEach(
    { source },
    at,
    ['source.dir', 'source.file', 'source.socket'],
    'must not be set for type volume',
  )
  const type = driver?.type
  return [
    ...(source?.volume === undefined ? [required(`${at}.source.volume`, 'must be set: a volume of the VM')] : []),
    ...findings,
    ...(type === undefined || type === 'virtiofs'
      ? []
      : [unsupported(`${at}.driver.type`, type, 'must be virtiofs, which shares a volume')]),
  ]
}

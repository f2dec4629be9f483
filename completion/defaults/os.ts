import type { Domain } from '../../api/domain/domain.ts'
import { rule } from './rule.ts'

export const architecture = rule('os-architecture', 'The architecture is that of the node.', (_, { capabilities }) => ({
  os: { type: { arch: capabilities.architecture } },
}))

export const machine = rule(
  'os-machine',
  'The machine type is the default one of QEMU: `pc`.',
  (_, { capabilities: { machines } }) => {
    const standard = machines.find(({ isDefault }) => isDefault)
    return standard && { os: { type: { machine: standard.alias ?? standard.name } } }
  },
)

/** Whether any device says when it is tried: then `os.boots` has no meaning. */
const hasBootOrder = ({ devices = {} }: Domain): boolean =>
  [
    ...(devices.disks ?? []),
    ...(devices.interfaces ?? []),
    ...(devices.hostdevs ?? []),
    ...(devices.redirdevs ?? []),
    ...(devices.filesystems ?? []),
  ].some(({ boot }) => boot?.order !== undefined)

export const boot = rule('os-boot', 'Where nothing says what to boot from, the first disk it is.', (domain) =>
  domain.os?.boots?.length || hasBootOrder(domain) ? undefined : { os: { boots: [{ dev: 'hd' }] } },
)

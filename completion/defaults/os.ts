import type { Domain } from '../../api/domain/domain.ts'
import { rule } from './rule.ts'

export const architecture = rule('os-architecture', 'The architecture is that of the node.', (_, { capabilities }) => ({
  os: { type: { arch: capabilities.architecture } },
}))

export const machine = rule(
  'os-machine',
  'The machine type is QEMU’s default, the newest `pc`; for a new VM it includes the version, so that its hardware does not change.',
  (_, { capabilities: { machines }, isNew }) => {
    const standard = machines.find(({ isDefault }) => isDefault)
    const machine = isNew === true ? standard?.name : (standard?.alias ?? standard?.name)
    return machine === undefined ? undefined : { os: { type: { machine } } }
  },
)

/** Whether any device has a boot order, in which case `os.boots` does not apply. */
const hasBootOrder = ({ devices = {} }: Domain): boolean =>
  [
    ...(devices.disks ?? []),
    ...(devices.interfaces ?? []),
    ...(devices.hostdevs ?? []),
    ...(devices.redirdevs ?? []),
    ...(devices.filesystems ?? []),
  ].some(({ boot }) => boot?.order !== undefined)

export const boot = rule('os-boot', 'The VM boots from the first disk unless a boot order is set.', (domain) =>
  domain.os?.boots?.length || hasBootOrder(domain) ? undefined : { os: { boots: [{ dev: 'hd' }] } },
)

import { iscsiUnit } from './disk.ts'
import { type Normalization, omit, upperCase, within } from './member.ts'

/** What libvirt stores for host devices. */
export const hostdev: Normalization = {
  'devices.hostdevs': (hostdev) =>
    within(omit(hostdev, hostdev['type'] === 'scsi' ? [] : ['readonly', 'shareable']), 'source', iscsiUnit),
  'devices.hostdevs.boot': (boot) => upperCase(boot, 'loadparm'),
}

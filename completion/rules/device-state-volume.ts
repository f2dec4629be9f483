import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { forbidden, invalid } from './finding.ts'
import type { Rule } from './rule.ts'
import { unknownVolume } from './volume.ts'

const field = 'spec.deviceStateVolume'

const onClaim = (deviceStateVolume: string): VirtualMachineSpec => ({
  domain: {},
  volumes: [{ name: 'state', persistentVolumeClaim: { claimName: 'state-of-vm' } }],
  deviceStateVolume,
})

/** Whether the volume is a file system is known when the pod is created. */
export const deviceStateVolume: Rule = {
  id: 'device-state-volume',
  description: '`deviceStateVolume` must name a volume of the VM of kind persistentVolumeClaim that can be written.',
  *check({ spec: { deviceStateVolume: name, volumes = [] } }) {
    if (name === undefined) return
    const volume = volumes.find((one) => one.name === name)
    if (volume === undefined) {
      yield unknownVolume(
        field,
        name,
        volumes.map((one) => one.name),
        0,
      )
    } else if (volume.persistentVolumeClaim === undefined) {
      yield invalid(field, name, 'must name a volume of kind persistentVolumeClaim: others are deleted with the VM')
    } else if (volume.persistentVolumeClaim.readOnly === true) {
      yield forbidden(field, name, 'must not name a volume that is readOnly')
    }
  },
  example: { breaks: onClaim('sate'), holds: onClaim('state') },
}

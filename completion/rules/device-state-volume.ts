import { nearest } from '../../api/nearest.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { nameSome } from '../../presets/abridge.ts'
import { forbidden, invalid, notFound } from './finding.ts'
import type { Rule } from './rule.ts'

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
      const names = volumes.map((one) => one.name)
      const near = nearest(name, names)
      const message =
        names.length === 0 ? 'spec.volumes is empty' : `no volume has this name; spec.volumes has ${nameSome(names)}`
      yield notFound(field, name, message, near === undefined ? undefined : `did you mean ${JSON.stringify(near)}?`)
    } else if (volume.persistentVolumeClaim === undefined) {
      yield invalid(field, name, 'must name a volume of kind persistentVolumeClaim: others are deleted with the VM')
    } else if (volume.persistentVolumeClaim.readOnly === true) {
      yield forbidden(field, name, 'must not name a volume that is readOnly')
    }
  },
  example: { breaks: onClaim('sate'), holds: onClaim('state') },
}

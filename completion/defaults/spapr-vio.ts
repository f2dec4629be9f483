import { numberOf } from './reading.ts'
import { fill, list, type DeviceOf, type Rule } from './rule.ts'

type Address = NonNullable<DeviceOf<'controllers'>['address']>

/** The first address of each kind of device, and the distance between addresses. */
const firstCard = 0x1000
const firstController = 0x2000
const step = 0x1000

export const spaprAddress: Rule = {
  name: 'spapr-vio-address',
  description:
    'A network card or SCSI controller of a POWER machine gets the first free address of its kind on the `spapr-vio` bus.',
  about: ['interfaces', 'controllers'],
  *apply(domain) {
    const devices = [
      ...list(domain, 'interfaces').map((device) => ({
        device,
        isOnBus: device.model?.type === 'spapr-vlan',
        first: firstCard,
      })),
      ...list(domain, 'controllers').map((device) => ({
        device,
        isOnBus: device.type === 'scsi' && device.model === 'ibmvscsi',
        first: firstController,
      })),
    ].filter(({ isOnBus }) => isOnBus)
    const taken = new Set(devices.map(({ device }) => registerOf(device.address)))
    for (const { device, first } of devices) {
      if (device.address?.type !== undefined && device.address.type !== 'spapr-vio') continue
      if (registerOf(device.address) !== undefined) continue
      let register = first
      while (taken.has(register)) register += step
      taken.add(register)
      yield fill(device, { address: { type: 'spapr-vio', reg: register } })
    }
  },
}

const registerOf = (address: Address | undefined): number | undefined =>
  address?.type === 'spapr-vio' ? numberOf(address.reg) : undefined

import { numberOf } from './reading.ts'
import { fill, list, type DeviceOf, type Rule } from './rule.ts'

type Address = NonNullable<DeviceOf<'controllers'>['address']>

/** Where devices of each kind begin, and how far they are from each other. */
const firstCard = 0x1000
const firstController = 0x2000
const step = 0x1000

export const spaprAddress: Rule = {
  name: 'spapr-vio-address',
  description:
    'A network card or SCSI controller of POWER machines is on their bus, at the first address of its kind that is free.',
  about: ['interfaces', 'controllers'],
  *apply(domain) {
    const seats = [
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
    const taken = new Set(seats.map(({ device }) => registerOf(device.address)))
    for (const { device, first } of seats) {
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

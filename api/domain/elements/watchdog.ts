import { deviceFields } from './address.ts'
import { attribute, element } from '../description.ts'
import { oneOf } from '../scalar.ts'

export const watchdog = element('A timer that acts if the guest does not reset it.', {
  model: attribute(oneOf('i6300esb', 'ib700', 'itco'), 'The device; `itco` is part of every q35 machine.'),
  action: attribute(
    oneOf('reset', 'shutdown', 'poweroff', 'pause', 'none', 'dump', 'inject-nmi'),
    'The action; `reset` if absent.',
    { reachOf: { dump: 'pod' } },
  ),
  ...deviceFields,
})

import { deviceFields } from './address.ts'
import { attribute, element } from '../description.ts'
import { oneOf } from '../scalar.ts'

export const watchdog = element('A clock that acts when the guest forgets to reset it.', {
  model: attribute(oneOf('i6300esb', 'ib700', 'itco'), 'The device; `itco` is part of every q35 machine.'),
  action: attribute(
    oneOf('reset', 'shutdown', 'poweroff', 'pause', 'none', 'dump', 'inject-nmi'),
    'What happens then; `reset` when absent.',
    { reachOf: { dump: 'pod' } },
  ),
  ...deviceFields,
})

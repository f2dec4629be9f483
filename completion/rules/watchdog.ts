import { chipsetOf } from '../defaults/machine.ts'
import { eachDevice } from './device.ts'
import { unsupported } from './finding.ts'
import { example } from './rule.ts'

export const watchdogMachine = eachDevice('watchdogs')(
  'watchdog-machine',
  'The watchdog ib700 is of the machine type pc.',
  ({ model }, at, { domain }) =>
    model === 'ib700' && chipsetOf(domain) !== 'i440fx'
      ? [unsupported(`${at}.model`, model, 'is possible on machine type pc only', 'i6300esb or itco')]
      : [],
  example(
    { os: { type: { os: 'hvm', machine: 'q35' } }, devices: { watchdogs: [{ model: 'ib700' }] } },
    { os: { type: { os: 'hvm', machine: 'pc' } }, devices: { watchdogs: [{ model: 'ib700' }] } },
  ),
)

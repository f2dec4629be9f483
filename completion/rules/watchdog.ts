import { chipsetOf } from '../defaults/machine.ts'
import { eachDevice, list } from './device.ts'
import { duplicate, forbidden, invalid, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

const watchdogMachine = eachDevice('watchdogs')(
  'watchdog-machine',
  'The watchdog ib700 requires machine type pc.',
  ({ model }, at, { domain }) =>
    model === 'ib700' && chipsetOf(domain) !== 'i440fx'
      ? [unsupported(`${at}.model`, model, 'is only supported on machine type pc', 'use i6300esb or itco')]
      : [],
  example(
    { os: { type: { os: 'hvm', machine: 'q35' } }, devices: { watchdogs: [{ model: 'ib700' }] } },
    { os: { type: { os: 'hvm', machine: 'pc' } }, devices: { watchdogs: [{ model: 'ib700' }] } },
  ),
)

const watchdogs: Rule = {
  id: 'watchdogs',
  description:
    'At most one ib700 and one itco are supported, itco on q35 only; all watchdogs must have the same action, and only i6300esb has an address.',
  about: ['watchdogs'],
  *check({ domain }) {
    const [first, ...others] = list(domain, 'watchdogs')
    const machine = domain.os?.type?.machine ?? ''
    const seen = new Set<string>()
    for (const [index, { model, address }] of list(domain, 'watchdogs').entries()) {
      const at = `spec.domain.devices.watchdogs[${index}]`
      if (model !== undefined && model !== 'i6300esb' && seen.has(model))
        yield duplicate(`${at}.model`, model, 'only one watchdog of this model is supported')
      if (model !== undefined) seen.add(model)
      if (model === 'itco' && !machine.includes('q35'))
        yield invalid(`${at}.model`, model, 'is only supported on machine type q35')
      const type = address?.type
      if (model === 'i6300esb' && type !== undefined && type !== 'pci')
        yield invalid(`${at}.address.type`, type, 'must be pci for model i6300esb')
      if (model !== 'i6300esb' && type !== undefined)
        yield forbidden(`${at}.address`, undefined, `must not be set for model ${model}, which is on no bus`)
    }
    for (const [index, { action }] of others.entries()) {
      if (action !== first?.action) {
        yield invalid(
          `spec.domain.devices.watchdogs[${index + 1}].action`,
          action,
          `must be ${first?.action}, like the action of the first watchdog`,
        )
      }
    }
  },
  example: example(
    {
      devices: {
        watchdogs: [
          { model: 'i6300esb', action: 'reset' },
          { model: 'ib700', action: 'none' },
        ],
      },
    },
    {
      devices: {
        watchdogs: [
          { model: 'i6300esb', action: 'reset' },
          { model: 'ib700', action: 'reset' },
        ],
      },
    },
  ),
}

export const watchdogRules: readonly Rule[] = [watchdogs, watchdogMachine]

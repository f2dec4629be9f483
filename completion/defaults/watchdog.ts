import { chipsetOf } from './machine.ts'
import { append, each, list, type Rule } from './rule.ts'

export const watchdogAction = each('watchdogs')('watchdog-action', 'The action of a watchdog is `reset`.', () => ({
  action: 'reset',
}))

export const q35Watchdog: Rule = {
  name: 'q35-watchdog',
  description: 'Every q35 machine has an iTCO watchdog, with the action of the first other watchdog.',
  apply: (domain) => {
    const { devices } = domain
    const watchdogs = list(domain, 'watchdogs')
    if (!devices || chipsetOf(domain) !== 'q35' || watchdogs.some(({ model }) => model === 'itco')) return []
    return [append(devices, 'watchdogs', { model: 'itco', action: watchdogs[0]?.action ?? 'reset' })]
  },
}

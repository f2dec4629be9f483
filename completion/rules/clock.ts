import { numberOf } from '../defaults/reading.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

/** In seconds since 1970: 9999-12-31T23:59:59Z. */
const lastSecond = 253_402_300_799

export const clockTimers: Rule = {
  id: 'clock-timers',
  description: 'The clock, its timers and their tick policies must be supported by QEMU on x86.',
  *check({ domain: { clock } }) {
    if (!clock) return
    const { offset, timezone, start, adjustment, timers = [] } = clock
    if (offset === 'variable' && adjustment === 'reset')
      yield unsupported(
        'spec.domain.clock.adjustment',
        adjustment,
        'is only supported for offset utc and localtime: variable keeps the changes of the guest',
      )
    if (offset === 'timezone' && timezone === undefined)
      yield required('spec.domain.clock.timezone', 'must be set for offset timezone')
    if ((numberOf(start) ?? 0) > lastSecond)
      yield invalid('spec.domain.clock.start', start, `must be at most ${lastSecond}, the end of the year 9999`)
    if (offset === 'absolute' && start === undefined)
      yield required('spec.domain.clock.start', 'must be set for offset absolute')
    for (const [index, { name, tickpolicy, track, frequency, mode, catchup }] of timers.entries()) {
      const at = `spec.domain.clock.timers[${index}]`
      if (name === undefined) yield required(`${at}.name`, 'must be set')
      if (name === 'platform' || name === 'armvtimer') yield unsupported(`${at}.name`, name, 'is not supported on x86')
      if (name === 'rtc' && (tickpolicy === 'merge' || tickpolicy === 'discard')) {
        yield unsupported(`${at}.tickpolicy`, tickpolicy, 'is not supported for rtc; use delay or catchup')
      }
      if (name === 'rtc' && track === 'boot')
        yield unsupported(`${at}.track`, track, 'is not supported for rtc; use guest, wall or realtime')
      if (name === 'pit' && tickpolicy === 'merge')
        yield unsupported(`${at}.tickpolicy`, tickpolicy, 'is not supported for pit')
      if (catchup && tickpolicy !== 'catchup')
        yield forbidden(`${at}.catchup`, undefined, 'can only be set for tickpolicy catchup')
      if (name !== 'tsc' && frequency !== undefined)
        yield forbidden(`${at}.frequency`, frequency, 'can only be set for tsc')
      if (name !== 'tsc' && mode !== undefined) yield forbidden(`${at}.mode`, mode, 'can only be set for tsc')
      if (name !== 'rtc' && track !== undefined) yield forbidden(`${at}.track`, track, 'can only be set for rtc')
      if ((name === 'kvmclock' || name === 'hypervclock') && tickpolicy !== undefined) {
        yield forbidden(`${at}.tickpolicy`, tickpolicy, `must not be set for ${name}`)
      }
    }
  },
  example: example(
    { clock: { timers: [{ name: 'rtc', tickpolicy: 'merge' }] } },
    { clock: { timers: [{ name: 'rtc', tickpolicy: 'catchup' }] } },
  ),
}

import { numberOf } from '../defaults/reading.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

/** In seconds since 1970: 9999-12-31T23:59:59Z. */
const lastSecond = 253_402_300_799

export const clockTimers: Rule = {
  id: 'clock-timers',
  description: 'The clock and its timers are those of a PC, and lose ticks as QEMU can.',
  *check({ domain: { clock } }) {
    if (!clock) return
    const { offset, timezone, start, adjustment, timers = [] } = clock
    if (offset === 'variable' && adjustment === 'reset')
      yield unsupported(
        'spec.domain.clock.adjustment',
        adjustment,
        'is possible for offset utc and localtime only: variable keeps what the guest has set',
      )
    if (offset === 'timezone' && timezone === undefined)
      yield required('spec.domain.clock.timezone', 'must be given for offset timezone')
    if ((numberOf(start) ?? 0) > lastSecond)
      yield invalid('spec.domain.clock.start', start, `must be at most ${lastSecond}, the end of the year 9999`)
    if (offset === 'absolute' && start === undefined)
      yield required('spec.domain.clock.start', 'must be given for offset absolute')
    for (const [index, { name, tickpolicy, track, frequency, mode, catchup }] of timers.entries()) {
      const at = `spec.domain.clock.timers[${index}]`
      if (name === undefined) yield required(`${at}.name`, 'must be given')
      if (name === 'platform' || name === 'armvtimer') yield unsupported(`${at}.name`, name, 'is no timer of a PC')
      if (name === 'rtc' && (tickpolicy === 'merge' || tickpolicy === 'discard')) {
        yield unsupported(`${at}.tickpolicy`, tickpolicy, 'is not possible for rtc: delay or catchup')
      }
      if (name === 'rtc' && track === 'boot')
        yield unsupported(`${at}.track`, track, 'is not possible for rtc: guest, wall or realtime')
      if (name === 'pit' && tickpolicy === 'merge')
        yield unsupported(`${at}.tickpolicy`, tickpolicy, 'is not possible for pit')
      if (catchup && tickpolicy !== 'catchup')
        yield forbidden(`${at}.catchup`, undefined, 'may be given for tickpolicy catchup only')
      if (name !== 'tsc' && frequency !== undefined)
        yield forbidden(`${at}.frequency`, frequency, 'may be given for tsc only')
      if (name !== 'tsc' && mode !== undefined) yield forbidden(`${at}.mode`, mode, 'may be given for tsc only')
      if (name !== 'rtc' && track !== undefined) yield forbidden(`${at}.track`, track, 'may be given for rtc only')
      if ((name === 'kvmclock' || name === 'hypervclock') && tickpolicy !== undefined) {
        yield forbidden(`${at}.tickpolicy`, tickpolicy, `may not be given for ${name}`)
      }
    }
  },
  example: example(
    { clock: { timers: [{ name: 'rtc', tickpolicy: 'merge' }] } },
    { clock: { timers: [{ name: 'rtc', tickpolicy: 'catchup' }] } },
  ),
}

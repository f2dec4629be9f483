import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'

type Clock = NonNullable<Domain['clock']>
type Timer = NonNullable<Clock['timers']>[number]

const clock = (clock: Clock): Domain => ({ clock })

const timer = (timer: Timer): Domain => clock({ offset: 'utc', timers: [timer] })

testRule('clock-timers', [
  {
    refused: clock({ offset: 'variable', adjustment: 'reset' }),
    causes: [
      'spec.domain.clock.adjustment: Unsupported value: "reset": is only supported for offset utc and localtime: variable keeps the changes of the guest',
    ],
    accepted: clock({ offset: 'utc', adjustment: 'reset' }),
  },
  {
    refused: clock({ offset: 'timezone' }),
    causes: ['spec.domain.clock.timezone: Required value: must be set for offset timezone'],
    accepted: clock({ offset: 'timezone', timezone: 'Europe/Berlin' }),
  },
  {
    refused: clock({ offset: 'absolute' }),
    causes: ['spec.domain.clock.start: Required value: must be set for offset absolute'],
    accepted: clock({ offset: 'absolute', start: 0 }),
  },
  {
    refused: clock({ offset: 'absolute', start: 253_402_300_800 }),
    causes: [
      'spec.domain.clock.start: Invalid value: 253402300800: must be at most 253402300799, the end of the year 9999',
    ],
    accepted: clock({ offset: 'absolute', start: 253_402_300_799 }),
  },
  {
    refused: timer({}),
    causes: ['spec.domain.clock.timers[0].name: Required value: must be set'],
    accepted: timer({ name: 'rtc' }),
  },
  {
    refused: timer({ name: 'platform' }),
    causes: ['spec.domain.clock.timers[0].name: Unsupported value: "platform": is not supported on x86'],
    accepted: timer({ name: 'hpet' }),
  },
  {
    refused: timer({ name: 'armvtimer' }),
    causes: ['spec.domain.clock.timers[0].name: Unsupported value: "armvtimer": is not supported on x86'],
    accepted: timer({ name: 'pit' }),
  },
  {
    refused: timer({ name: 'rtc', tickpolicy: 'merge' }),
    causes: [
      'spec.domain.clock.timers[0].tickpolicy: Unsupported value: "merge": is not supported for rtc; use delay or catchup',
    ],
    accepted: timer({ name: 'rtc', tickpolicy: 'delay' }),
  },
  {
    refused: timer({ name: 'rtc', tickpolicy: 'discard' }),
    causes: [
      'spec.domain.clock.timers[0].tickpolicy: Unsupported value: "discard": is not supported for rtc; use delay or catchup',
    ],
    accepted: timer({ name: 'pit', tickpolicy: 'discard' }),
  },
  {
    refused: timer({ name: 'rtc', track: 'boot' }),
    causes: [
      'spec.domain.clock.timers[0].track: Unsupported value: "boot": is not supported for rtc; use guest, wall or realtime',
    ],
    accepted: timer({ name: 'rtc', track: 'guest' }),
  },
  {
    refused: timer({ name: 'pit', tickpolicy: 'merge' }),
    causes: ['spec.domain.clock.timers[0].tickpolicy: Unsupported value: "merge": is not supported for pit'],
    accepted: timer({ name: 'pit', tickpolicy: 'delay' }),
  },
  {
    refused: timer({ name: 'rtc', tickpolicy: 'delay', catchup: { threshold: 1 } }),
    causes: ['spec.domain.clock.timers[0].catchup: Forbidden: can only be set for tickpolicy catchup'],
    accepted: timer({ name: 'rtc', tickpolicy: 'catchup', catchup: { threshold: 1 } }),
  },
  {
    refused: timer({ name: 'hpet', frequency: 1 }),
    causes: ['spec.domain.clock.timers[0].frequency: Forbidden: can only be set for tsc'],
    accepted: timer({ name: 'tsc', frequency: 1 }),
  },
  {
    refused: timer({ name: 'hpet', mode: 'native' }),
    causes: ['spec.domain.clock.timers[0].mode: Forbidden: can only be set for tsc'],
    accepted: timer({ name: 'tsc', mode: 'native' }),
  },
  {
    refused: timer({ name: 'tsc', track: 'boot' }),
    causes: ['spec.domain.clock.timers[0].track: Forbidden: can only be set for rtc'],
    accepted: timer({ name: 'tsc', tickpolicy: 'merge' }),
  },
  {
    refused: timer({ name: 'kvmclock', tickpolicy: 'delay' }),
    causes: ['spec.domain.clock.timers[0].tickpolicy: Forbidden: must not be set for kvmclock'],
    accepted: timer({ name: 'kvmclock' }),
  },
  {
    refused: timer({ name: 'hypervclock', tickpolicy: 'delay' }),
    causes: ['spec.domain.clock.timers[0].tickpolicy: Forbidden: must not be set for hypervclock'],
    accepted: timer({ name: 'hypervclock' }),
  },
])

import { attribute, child, children, element } from '../description.ts'
import { int64, integer, oneOf, uint32, uint64, yesNo } from '../scalar.ts'
import { timeZone } from '../text.ts'

const catchup = element('How lost ticks are made up.', {
  threshold: attribute(uint32, 'The number of lost ticks at which catching up starts.'),
  slew: attribute(uint32, 'The catch-up rate in parts per million.'),
  limit: attribute(uint32, 'The number of lost ticks at which catching up is abandoned.'),
})

const timer = element('One timer of the machine.', {
  name: attribute(
    oneOf('platform', 'hpet', 'kvmclock', 'pit', 'rtc', 'tsc', 'hypervclock', 'armvtimer'),
    'Which timer.',
  ),
  present: attribute(yesNo, 'Whether the guest has it.'),
  tickpolicy: attribute(oneOf('delay', 'catchup', 'merge', 'discard'), 'What happens to lost ticks.'),
  track: attribute(oneOf('boot', 'guest', 'wall', 'realtime'), 'What the timer follows.'),
  frequency: attribute(uint64, 'Hertz, of the TSC.'),
  mode: attribute(oneOf('auto', 'native', 'emulate', 'paravirt', 'smpsafe'), 'How the TSC is offered.'),
  catchup: child(catchup, 'How lost ticks are made up.'),
})

export const clock = element(
  'The clock that the guest boots with.',
  {
    offset: attribute(
      oneOf('utc', 'localtime', 'timezone', 'variable', 'absolute'),
      'What the clock starts with: UTC, local time, the time of a zone, a time that the guest may change, or a fixed time.',
    ),
    adjustment: attribute(
      integer({ min: -9_223_372_036_854_775_808n, max: 9_223_372_036_854_775_807n, words: ['reset'] }),
      'Seconds that the guest has moved its clock; `reset` forgets them at each start.',
    ),
    basis: attribute(oneOf('utc', 'localtime'), 'What `variable` is relative to.'),
    timezone: attribute(timeZone, 'The time zone, with `timezone`.', { reach: 'pod' }),
    start: attribute(int64, 'With `absolute`: seconds since 1970.'),
    timers: children('timer', timer, 'The timers of the machine.', { key: [['name']] }),
  },
  {
    union: {
      by: 'offset',
      owns: ['adjustment', 'basis', 'timezone', 'start'],
      branches: {
        utc: ['adjustment'],
        localtime: ['adjustment'],
        timezone: ['timezone'],
        variable: ['adjustment', 'basis'],
        absolute: ['start'],
      },
    },
  },
)

import { attribute, child, children, element } from '../description.ts'
import { int64, integer, oneOf, uint32, uint64, yesNo } from '../scalar.ts'
import { timeZone } from '../text.ts'

const catchup = element('How lost ticks are made good.', {
  threshold: attribute(uint32, 'From how many lost ticks on.'),
  slew: attribute(uint32, 'How fast, in parts of a million.'),
  limit: attribute(uint32, 'From how many lost ticks on it is given up.'),
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
  catchup: child(catchup, 'How lost ticks are made good.'),
})

export const clock = element(
  'The clock that the guest boots with.',
  {
    offset: attribute(
      oneOf('utc', 'localtime', 'timezone', 'variable', 'absolute'),
      'What it shows: UTC, local time, the time of a zone, a time that the guest may change, or a fixed one.',
    ),
    adjustment: attribute(
      integer({ min: -9_223_372_036_854_775_808n, max: 9_223_372_036_854_775_807n, words: ['reset'] }),
      'Seconds that the guest has moved its clock; `reset` forgets them at each start.',
    ),
    basis: attribute(oneOf('utc', 'localtime'), 'What `variable` is relative to.'),
    timezone: attribute(timeZone, 'The zone, with `timezone`.', { reach: 'pod' }),
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

import { rule } from './rule.ts'

export const clockAdjustment = rule(
  'clock-adjustment',
  'A clock with offset `variable` starts at the time in UTC.',
  ({ clock: stated }) => (stated?.offset === 'variable' ? { clock: { adjustment: 0, basis: 'utc' } } : undefined),
)

export const clock = rule('clock', 'The clock of the guest starts at the time in UTC.', () => ({
  clock: { offset: 'utc' },
}))

import { rule } from './rule.ts'

export const clockAdjustment = rule(
  'clock-adjustment',
  'A clock that the guest sets begins with the time in UTC.',
  ({ clock: stated }) => (stated?.offset === 'variable' ? { clock: { adjustment: 0, basis: 'utc' } } : undefined),
)

export const clock = rule('clock', 'The clock of the guest begins with the time in UTC.', () => ({
  clock: { offset: 'utc' },
}))

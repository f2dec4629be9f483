import { rule } from './rule.ts'

export const clock = rule('clock', 'The clock of the guest begins with the time in UTC.', () => ({
  clock: { offset: 'utc' },
}))

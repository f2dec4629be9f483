import { type JsonObject, type Kept } from './member.ts'

/** What counts of the clock. */
export const clock: Kept = {
  clock: (clock) => keptClock(clock),
}

/** A clock that is put forward is one that the guest may set. */
const keptClock = (clock: JsonObject): JsonObject => {
  const { offset, adjustment } = clock
  return (offset === 'utc' || offset === 'localtime') && adjustment !== undefined && adjustment !== 'reset'
    ? { ...clock, offset: 'variable', basis: offset }
    : clock
}

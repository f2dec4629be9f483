import { type JsonObject, type Normalization, omit } from './member.ts'

/** What libvirt stores for the clock. */
export const clock: Normalization = {
  clock: (clock) => storedClock(clock),
}

/** The fields that apply only to this offset. */
const fieldsOf: { readonly [offset: string]: readonly string[] } = {
  utc: ['adjustment'],
  localtime: ['adjustment'],
  variable: ['adjustment', 'basis'],
  timezone: ['timezone'],
  absolute: ['start'],
}

/** libvirt turns a clock with an adjustment into one that the guest can set. */
const storedClock = (clock: JsonObject): JsonObject => {
  const { offset, adjustment } = clock
  if ((offset === 'utc' || offset === 'localtime') && adjustment !== undefined && adjustment !== 'reset')
    return { ...omit(clock, ['timezone', 'start']), offset: 'variable', basis: offset }
  const applying = fieldsOf[typeof offset === 'string' ? offset : '']
  if (!applying) return clock
  return omit(
    clock,
    ['adjustment', 'basis', 'timezone', 'start'].filter((key) => !applying.includes(key)),
  )
}

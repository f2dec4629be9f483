/** Reads values that users may spell in several ways: `10`, `"10"`, `"0x0a"`; `true`, `"yes"`, `"on"`. */

/** The number of a field; undefined if the field is missing or not a number. */
export const numberOf = (value: unknown): number | undefined => {
  if (typeof value === 'number') return value
  if (typeof value !== 'string' || value === '') return undefined
  const number = Number(value)
  return Number.isNaN(number) ? undefined : number
}

/** Whether a switch is on; undefined if it is not set. */
export const isOn = (value: unknown): boolean | undefined => {
  if (value === undefined) return undefined
  return value === true || value === 'yes' || value === 'on'
}

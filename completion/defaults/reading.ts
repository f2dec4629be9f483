/** How values that a user may spell in several ways are read: `10`, `"10"`, `"0x0a"`; `true`, `"yes"`, `"on"`. */

/** The number of a field; undefined if the field is missing or not a number. */
export const numberOf = (value: unknown): number | undefined => {
  if (typeof value === 'number') return value
  if (typeof value !== 'string' || value === '') return undefined
  const number = Number(value)
  return Number.isNaN(number) ? undefined : number
}

/** Whether something is switched on; undefined if not set. */
export const isOn = (value: unknown): boolean | undefined => {
  if (value === undefined) return undefined
  return value === true || value === 'yes' || value === 'on'
}

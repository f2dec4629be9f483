/** The JSON of a value, whatever the order of its keys, which the API server does not preserve. */
export const sortedJson = (value: unknown): string => JSON.stringify(value, sortKeys)

function sortKeys(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)))
}

/** Text of at most `length` UTF-16 units, with an ellipsis if it was cut. Never leaves half a surrogate pair. */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text
  return `${text.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

/** The texts of the first `most` items, and the number of the others: `a; b; and 4 more`. Builds no other texts. */
export function firstTexts<T>(items: readonly T[], most: number, text: (item: T) => string): string {
  const shown = items.slice(0, most).map(text)
  const rest = items.length - shown.length
  return [...shown, ...(rest > 0 ? [`and ${rest} more`] : [])].join('; ')
}

/**
 * The text, shortened to at most `limit` bytes of UTF-8 at the end of a character, with an ellipsis if it was
 * shortened.
 */
export function shortenToBytes(text: string, limit: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= limit) return text
  let end = limit - Buffer.byteLength('…')
  while (((bytes[end] ?? 0) & 0b1100_0000) === 0b1000_0000) end--
  return `${bytes.subarray(0, end).toString()}…`
}

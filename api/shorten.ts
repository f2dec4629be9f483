/** Text of at most `length` UTF-16 units, with an ellipsis if it was cut. Never leaves half a surrogate pair. */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text
  return `${text.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

/** Text of at most `length` UTF-16 units, with an ellipsis where it was cut; no half of a surrogate pair remains. */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text
  return `${text.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

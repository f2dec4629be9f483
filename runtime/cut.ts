/**
 * The text, shortened to at most `limit` bytes of UTF-8 at the end of a character, with an ellipsis if it was
 * shortened.
 */
export function cutBytes(text: string, limit: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= limit) return text
  let end = limit - Buffer.byteLength('…')
  while (((bytes[end] ?? 0) & 0b1100_0000) === 0b1000_0000) end--
  return `${bytes.subarray(0, end).toString()}…`
}

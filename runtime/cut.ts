/** Cut so that the UTF-8 is no longer than `limit` bytes, at a character's end, with an ellipsis where something was cut. */
export function cutBytes(text: string, limit: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= limit) return text
  let end = limit - Buffer.byteLength('…')
  while (((bytes[end] ?? 0) & 0b1100_0000) === 0b1000_0000) end--
  return `${bytes.subarray(0, end).toString()}…`
}

/**
 * The bytes of a value in JSON, or any number above `most` if it has more. Nothing is built that would not fit: what
 * wildcards of presets have multiplied is shared in memory, and would not be in the text.
 */
export function jsonBytes(value: unknown, most: number): number {
  let bytes = 0
  const waiting = [value]
  while (waiting.length > 0 && bytes <= most) {
    const next = waiting.pop()
    if (typeof next !== 'object' || next === null) {
      bytes += Buffer.byteLength(JSON.stringify(next) ?? '')
    } else if (Array.isArray(next)) {
      // Brackets and commas.
      bytes += Math.max(2, next.length + 1)
      for (const item of next) waiting.push(item)
    } else {
      const members = Object.entries(next).filter(([, member]) => member !== undefined)
      bytes += members.length === 0 ? 2 : 1
      for (const [key, member] of members) {
        bytes += Buffer.byteLength(JSON.stringify(key)) + 2
        waiting.push(member)
      }
    }
  }
  return bytes
}

/**
 * Control characters, those that are invisible or change the direction, private ones, halves of surrogate pairs, and
 * other separators of lines. `\n` is none of these.
 */
const hidden = /(?!\n)[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/**
 * Text that a guest, a launcher or another user decides, as it is stored and shown on terminals and web pages: each
 * character that could hide or move other text is U+FFFD.
 */
export const shownText = (text: string): string => text.replaceAll(hidden, '\uFFFD')

/**
 * Such text in one line: `kubectl describe` would show a second line of a message like a field of its own.
 */
export const shownLine = (text: string): string =>
  shownText(
    text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .join('; '),
  )

/**
 * Control characters, those that are invisible or change the direction, private ones, halves of surrogate pairs, and
 * other separators of lines. `\n` is none of these, nor are the joiners and the selectors with which scripts other than
 * the Latin one and emoji are written.
 */
const hidden =
  /(?!\n|(?<=[[\p{L}\p{M}\p{Emoji}]--\p{ASCII}])[\u200C\u200D](?=[[\p{L}\p{M}\p{Emoji}]--\p{ASCII}])|(?<=[\p{Emoji}--\p{ASCII}])\uFE0F)[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gv

/**
 * Text that a guest, a launcher or another user decides, as it is stored and shown on terminals and web pages: each
 * character that could hide or move other text is U+FFFD.
 */
export const shownText = (text: string): string => text.replaceAll(hidden, '\uFFFD')

/**
 * Such text in one line: `kubectl describe` would show a second line of a message like a field of its own. A list, as in
 * a refusal of the API server, loses its bullets.
 */
export const shownLine = (text: string): string =>
  shownText(
    text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .join('\n')
      .replaceAll(/(:?)\n(?:\* )?/g, (_, colon: string) => (colon === '' ? '; ' : ': ')),
  )

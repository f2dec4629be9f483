/** Tabs and line ends are shown as they are. */
const control = String.raw`[\u0000-\u0008\u000B-\u001F\u007F-\u009F]`
/**
 * Bidirectional overrides, zero-width spaces and similar characters, and the two separators that some programs treat as
 * line breaks.
 */
const invisible = String.raw`[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]`

/**
 * Text for standard output or standard error. Names and messages come from other people's objects, and the log of a VM
 * from its guest. Control characters, which could move the cursor, hide text, set the title, forge lines or give text the
 * style of this program's own, are shown as JSON escapes. On a terminal, so are characters that are invisible or reorder
 * the text around them; a file gets these unchanged, because they are part of the data.
 * @param escape what stands for ESC in the sequences of this program; others must not be able to guess it
 */
export function terminalText(escape: string): (text: string, isTerminal: boolean) => string {
  const own = RegExp.escape(escape)
  const unsafe = new RegExp(`${own}|${control}`, 'gu')
  const deceptive = new RegExp(`${own}|${control}|${invisible}`, 'gu')
  return (text, isTerminal) =>
    text.replaceAll(isTerminal ? deceptive : unsafe, (found) => (found === escape ? '\u001B' : escaped(found)))
}

/** One escape for each UTF-16 code unit, as in JSON. */
const escaped = (text: string): string =>
  text
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')

import { inspect } from 'node:util'
import { styles } from './paint.ts'

/** The escape sequences that this program writes itself: its styles, and the start of a progress line. */
const codes = styles.flatMap((style) => inspect.colors[style] ?? [])
const own = String.raw`^\r\u001B\[K|\u001B\[(?:${codes.join('|')})m`
const control = String.raw`[\u0000-\u0008\u000B-\u001F\u007F-\u009F]`
/**
 * Bidirectional overrides, zero-width spaces and similar characters, and the two separators that some programs treat as
 * line breaks.
 */
const invisible = String.raw`[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]`
const unsafe = new RegExp(`${own}|${control}`, 'gu')
const deceptive = new RegExp(`${own}|${control}|${invisible}`, 'gu')

/**
 * Text for standard output or standard error. Names and messages come from other people's objects. Control characters,
 * which could move the cursor, hide text, set the title or forge lines, are shown as JSON escapes. On a terminal, so
 * are characters that are invisible or reorder the text around them; a file gets these unchanged, because they are part
 * of the data.
 */
export const terminalText = (text: string, isTerminal: boolean): string =>
  text.replaceAll(isTerminal ? deceptive : unsafe, (found) => (found.length > 2 ? found : escaped(found)))

/** One escape for each UTF-16 code unit, as in JSON. */
const escaped = (text: string): string =>
  text
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')

/** Colours, and the sequence at the start of a progress line. */
const own = String.raw`^\r\u001B\[K|\u001B\[[\d;]*m`
const control = String.raw`[\u0000-\u0008\u000B-\u001F\u007F-\u009F]`
const unsafe = new RegExp(`${own}|${control}`, 'g')

/**
 * Text for a terminal. Names and messages come from other people's objects: their control characters, which could move the cursor, set the
 * title or forge lines, are shown as JSON escapes.
 */
export const terminalText = (text: string): string =>
  text.replaceAll(unsafe, (found) =>
    found.length > 1 ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

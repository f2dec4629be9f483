import { createHash } from 'node:crypto'

/**
 * In place of a request's uid: the same words derive the same identity, so that results are comparable; other words
 * another.
 */
export const derivedUid = (...words: readonly string[]): string =>
  createHash('sha256').update(words.join('\0')).digest('hex').slice(0, 32)

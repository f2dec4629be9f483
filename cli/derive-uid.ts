import { createHash } from 'node:crypto'

/** A substitute for a request's UID. Equal words yield equal UIDs, so that results are comparable. */
export const derivedUid = (...words: readonly string[]): string =>
  createHash('sha256').update(words.join('\0')).digest('hex').slice(0, 32)

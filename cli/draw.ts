import { createHash } from 'node:crypto'

/** In place of a request's uid: the same words give the same VM, so that results can be compared, and no two VMs the same identity. */
export const drawnUid = (...words: readonly string[]): string =>
  createHash('sha256').update(words.join('\0')).digest('hex').slice(0, 32)

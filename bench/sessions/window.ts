import { smallChunkBytes } from '../../runtime/carry.ts'

/**
 * After these bytes, the guest sends a window. They are so many because the chain does not read for some milliseconds
 * after a smaller chunk: it would delay the next request, not the output that is measured.
 */
export const pourRequest = Buffer.alloc(smallChunkBytes, 'p')
/** Less than the lag after which a reader of a console is disconnected. */
export const windowBytes = 256 * 1024

/** A group whose threads a container has distributed lists no processes: ENOTSUP. */
const codes = new Set(['ENOENT', 'ENODEV', 'ENOTSUP', 'ESRCH', 'EACCES', 'EPERM'])

/** Processes and their control groups end at any time, and some are protected even from root. */
export function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof Error && 'code' in error && codes.has(String(error.code))) return undefined
    throw error
  }
}

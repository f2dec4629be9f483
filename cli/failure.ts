/** The caller's mistake: a file that cannot be read, a flag that means nothing. One sentence, exit code 2. */
export class Usage extends Error {
  override name = 'Usage'
}

export const exitCodes = { fine: 0, refused: 1, usage: 2, warnings: 3 } as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** What a run over several inputs ends with: what could not be read weighs most, and warnings only if the caller is strict. */
export function exitCode(
  seen: { readonly unreadable?: boolean; readonly refused?: boolean; readonly warned?: boolean },
  strict = false,
): ExitCode {
  if (seen.unreadable) return exitCodes.usage
  if (seen.refused) return exitCodes.refused
  return seen.warned && strict ? exitCodes.warnings : exitCodes.fine
}

const words: { readonly [code: string]: string } = {
  ENOENT: 'no such file',
  EISDIR: 'is a folder',
  ENOTDIR: 'is below a file',
  EEXIST: 'is a file, and a folder is wanted',
}

/** A file or folder that cannot be read or written. */
export function fileFailure(file: string, verb: 'read' | 'written', error: unknown): Usage {
  const code = codeOf(error)
  const isDenied = ['EACCES', 'EPERM', 'EROFS'].includes(code)
  const isNowhere = verb === 'written' && code === 'ENOENT'
  const known = isNowhere ? 'its folder is not there, or takes nothing new' : words[code]
  const why = isDenied ? `may not be ${verb}` : (known ?? `cannot be ${verb}: ${errorText(error)}`)
  return new Usage(`${file}: ${why}`, { cause: error })
}

/** Of the system's errors, as `ENOENT`; empty for others. */
export const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')

/** What ends a message of a cluster that is not there, for commands that can do without. */
export const withoutCluster = '\nWithout a cluster: --presets FILE|DIR'

/** The words of an error and of all that led to it, innermost last. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const inner = error.cause === undefined ? '' : errorText(error.cause)
  const own =
    error instanceof AggregateError && error.message === '' ? error.errors.map(errorText).join(', ') : error.message
  return inner === '' || own.includes(inner) ? own : `${own}: ${inner}`
}

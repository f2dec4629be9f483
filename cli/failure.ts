/** A user error, for example an unreadable file or a wrong flag: one sentence, exit code 2. */
export class Usage extends Error {
  override name = 'Usage'
}

export const exitCodes = { fine: 0, refused: 1, usage: 2, warnings: 3 } as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/**
 * The exit code of a run over several inputs. An unreadable input outweighs a refused one; warnings count only with
 * `--strict`.
 */
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
  EISDIR: 'is a directory',
  ENOTDIR: 'has a file in place of a directory',
  EEXIST: 'is a file, not a directory',
}

/** A file or directory that cannot be read or written. */
export function fileFailure(file: string, verb: 'read' | 'written', error: unknown): Usage {
  const code = codeOf(error)
  const isDenied = ['EACCES', 'EPERM', 'EROFS'].includes(code)
  const isNowhere = verb === 'written' && code === 'ENOENT'
  const known = isNowhere ? 'its directory does not exist, or accepts no new files' : words[code]
  const why = isDenied ? `permission denied` : (known ?? `cannot be ${verb}: ${errorText(error)}`)
  return new Usage(`${file}: ${why}`, { cause: error })
}

/** The code of a system error, for example `ENOENT`; empty for others. */
export const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')

/** A suffix for the message about an unreachable cluster, for commands that work without one. */
export const withoutCluster = '; without a cluster: --presets FILE|DIR or --no-presets'

export const withoutSchema = '; without a cluster: --schema FILE|DIR'

/** The messages of an error and its causes, innermost last. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const inner = error.cause === undefined ? '' : errorText(error.cause)
  const own =
    error instanceof AggregateError && error.message === '' ? error.errors.map(errorText).join(', ') : error.message
  return inner === '' || own.includes(inner) ? own : `${own}: ${inner}`
}

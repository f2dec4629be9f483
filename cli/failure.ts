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

/** The words of an error and of all that led to it, innermost last. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const inner = error.cause === undefined ? '' : errorText(error.cause)
  const own =
    error instanceof AggregateError && error.message === '' ? error.errors.map(errorText).join(', ') : error.message
  return inner === '' || own.includes(inner) ? own : `${own}: ${inner}`
}

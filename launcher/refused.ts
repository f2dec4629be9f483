import type { LauncherErrorReason } from '../runtime/launcher-api.ts'

/** What was asked cannot be done, for a reason that the one who asked is told. */
export class Refused extends Error {
  override name = 'Refused'
  readonly reason: LauncherErrorReason

  constructor(reason: LauncherErrorReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

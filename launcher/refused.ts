import type { LauncherErrorReason } from '../runtime/launcher-api.ts'

/** The refusal of a request; the client gets the reason and the message. */
export class Refused extends Error {
  override name = 'Refused'
  readonly reason: LauncherErrorReason

  constructor(reason: LauncherErrorReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

import { shorten } from '../api/shorten.ts'
import { InvalidLauncherResponse } from '../runtime/launcher-api.ts'
import { LauncherRefusal, LauncherUnreachable } from './launcher.ts'

/** In UTF-16 units. Events and the status of the VM have more of it. */
const longestText = 256

/** Text that a launcher decides, as it is logged. */
export const loggedText = (text: string): string => shorten(text, longestText)

/** An error as it is logged. One of a launcher has its text in the stack as well, which shows nothing more. */
export const loggedError = (error: unknown): unknown => {
  const isOfLauncher =
    error instanceof LauncherRefusal || error instanceof LauncherUnreachable || error instanceof InvalidLauncherResponse
  // The constructor is what the logger shows as the type.
  return isOfLauncher ? { constructor: error.constructor, message: loggedText(error.message) } : error
}

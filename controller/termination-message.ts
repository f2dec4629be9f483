import { isRecord } from '../api/schema.ts'
import { shownLine } from '../runtime/shown-text.ts'

/**
 * The last line of a container's termination message. That is the end of its log where the container wrote no message
 * of its own (`FallbackToLogsOnError`): lines of JSON as our logger writes them, or any other text. One line also if the
 * JSON has several.
 */
export function lastLine(message: string | undefined): string | undefined {
  const line = message
    ?.split('\n')
    .map((one) => one.trim())
    .findLast((one) => one !== '')
  return line === undefined ? undefined : shownLine(textOfLogLine(line) ?? line)
}

function textOfLogLine(line: string): string | undefined {
  if (!line.startsWith('{')) return undefined
  try {
    const entry: unknown = JSON.parse(line)
    if (!isRecord(entry) || typeof entry['msg'] !== 'string') return undefined
    const { msg, err } = entry
    return isRecord(err) && typeof err['message'] === 'string' ? `${msg}: ${err['message']}` : msg
  } catch {
    return undefined
  }
}

import { pino } from 'pino'
import type { DestinationStream, Logger } from 'pino'
import { shorten } from '../api/shorten.ts'

export type { Logger } from 'pino'

/** The levels that LOG_LEVEL and `PUT /log-level` can set. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

export function isLogLevel(word: string): word is LogLevel {
  return logLevels.some((level) => level === word)
}

/** The level that a word names; `info` for any other word. */
export function logLevelOf(word = ''): LogLevel {
  return isLogLevel(word) ? word : 'info'
}

/** Container runtimes split longer lines. */
const longestLine = 16 * 1024
/** Of a longer line. The message of an error is in its `message` and its `stack`. */
const longestText = 2048
const mostItems = 16

/**
 * A line in which texts and lists are cut if it is too long. Launchers, presets and the API server decide how long
 * their messages are, and how often they come: the earlier lines of a process must not be rotated away by them.
 */
const boundedLine = (line: string): string =>
  line.length <= longestLine
    ? line
    : `${JSON.stringify(JSON.parse(line), (_, value: unknown) => boundedValue(value))}\n`

function boundedValue(value: unknown): unknown {
  if (typeof value === 'string') return shorten(value, longestText)
  return Array.isArray(value) ? value.slice(0, mostItems) : value
}

/**
 * A line of JSON per message: `level` as a word, `time` as RFC 3339, `process`, `msg`, and an error under `err` with
 * its causes. Specs are not logged: they may hold secrets.
 */
export function createLogger(options: { process: string; level?: LogLevel; to?: DestinationStream }): Logger {
  const settings = {
    level: options.level ?? 'info',
    base: { process: options.process },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (level: string) => ({ level }) },
    hooks: { streamWrite: boundedLine },
  }
  return options.to ? pino(settings, options.to) : pino(settings)
}

import { pino } from 'pino'
import type { DestinationStream, Logger } from 'pino'

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
  }
  return options.to ? pino(settings, options.to) : pino(settings)
}

import type { Display } from './progress.ts'

/** Progress is written to standard error, so that shells can use standard output. */
export const terminal: Display = {
  write: (text) => void process.stderr.write(text),
  isTerminal: process.stderr.isTTY === true,
  columns: () => process.stderr.columns ?? 80,
  now: () => performance.now(),
  tick: (callback) => {
    const timer = setInterval(callback, 100)
    return () => clearInterval(timer)
  },
}

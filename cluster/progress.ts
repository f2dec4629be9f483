import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { lastLines, run, type CommandOptions } from './command.ts'

/** The output and the clock. */
export interface Display {
  write(text: string): void
  /** Whether a line can be overwritten; otherwise each step is one line when it is done. */
  readonly isTerminal: boolean
  /** The width of the terminal. Longer lines could not be overwritten. */
  columns(): number
  now(): number
  /** Calls back at each tick of a spinner until the returned function is called. */
  tick(callback: () => void): () => void
}

/** What a step can do while it runs. */
export interface Step {
  /** The file with the output of the step's commands. */
  readonly log: string
  /** Shows the current activity or the result beside the title: `3 of 7`, `from the cache`. */
  show(note: string): void
  /** Runs a command with its output in the step's log. */
  run(command: readonly string[], options?: Omit<CommandOptions, 'log'>): Promise<string>
}

/** A step failed; the failure has been shown. */
export class StepFailed extends Error {
  constructor(title: string, cause: unknown) {
    super(`${title} failed`, { cause })
    this.name = 'StepFailed'
  }
}

export interface Progress {
  /**
   * Runs a step and shows it as a line with its duration. If it fails, shows the end and the path of its log, and
   * `remedy`, which advises the user.
   *
   * @throws StepFailed
   */
  step<T>(title: string, remedy: string, work: (step: Step) => Promise<T>): Promise<T>
}

const spinner = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
/** A spinner on shorter steps would only flicker. */
const spinAfterMs = 2000

export function createProgress(display: Display, logs: string): Progress {
  mkdirSync(logs, { recursive: true })
  return {
    async step(title, remedy, work) {
      const log = join(logs, `${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.log`)
      writeFileSync(log, '')
      const start = display.now()
      let note = ''
      let frame = 0
      const line = (mark: string) => formatLine(mark, title, display.now() - start, note)
      const repaint = () => {
        if (display.now() - start < spinAfterMs) return
        const text = line(spinner[frame++ % spinner.length] ?? '')
        display.write(`\r\x1b[K${text.slice(0, display.columns() - 1)}`)
      }
      const stop = display.isTerminal ? display.tick(repaint) : () => {}
      const end = (mark: string) => {
        stop()
        display.write(`${display.isTerminal ? '\r\x1b[K' : ''}${line(mark)}\n`)
      }
      try {
        const result = await work({
          log,
          show: (text) => {
            note = text
          },
          run: (command, options) => run(command, { ...options, log }),
        })
        end('✓')
        return result
      } catch (error) {
        end('✗')
        display.write(formatFailure(error, existsSync(log) ? readFileSync(log, 'utf8') : '', log, remedy))
        throw new StepFailed(title, error)
      }
    },
  }
}

export function formatLine(mark: string, title: string, elapsedMs: number, note: string): string {
  return `${mark} ${title.padEnd(44)} ${(elapsedMs / 1000).toFixed(1).padStart(6)} s${note === '' ? '' : `  ${note}`}`
}

function formatFailure(error: unknown, log: string, path: string, remedy: string): string {
  const tail = lastLines(log, 15)
  return [
    '',
    `  ${describe(error).replaceAll('\n', '\n  ')}`,
    ...(tail === '' ? [] : ['', '  end of the log:', `    ${tail.replaceAll('\n', '\n    ')}`]),
    '',
    `  full log: ${path}`,
    `  what to do: ${remedy}`,
    '',
  ].join('\n')
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

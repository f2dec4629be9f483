import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { lastLines, run, type CommandOptions } from './command.ts'

/** Where lines go, and what time it is. */
export interface Display {
  write(text: string): void
  /** Whether a line can be written over; otherwise each step is one plain line when it is done. */
  readonly isTerminal: boolean
  /** Of a terminal. A line that is to be written over must not be longer: what is on a second line stays. */
  columns(): number
  now(): number
  /** Calls back at each tick of a spinner until the returned function is called. */
  tick(callback: () => void): () => void
}

/** What a step can do while it runs. */
export interface Step {
  /** The file with everything that the step's commands said. */
  readonly log: string
  /** What it does at the moment, then how it ended: `3 of 7`, `from the cache`. Shown beside the title. */
  say(note: string): void
  /** Runs a command, whose words go to the step's log. */
  run(command: readonly string[], options?: Omit<CommandOptions, 'log'>): Promise<string>
}

/** A step that failed and has already said so. */
export class StepFailed extends Error {
  constructor(title: string, cause: unknown) {
    super(`${title} failed`, { cause })
    this.name = 'StepFailed'
  }
}

export interface Progress {
  /**
   * One step: a line with its time. `remedy` is what a person should do when it fails; the end of the step's log and the path of the
   * whole are said with it.
   *
   * @throws StepFailed
   */
  step<T>(title: string, remedy: string, work: (step: Step) => Promise<T>): Promise<T>
}

const spinner = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
/** Shorter steps only flicker. */
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
          say: (text) => {
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
    ...(tail === '' ? [] : ['', '  the end of its log:', `    ${tail.replaceAll('\n', '\n    ')}`]),
    '',
    `  all of it: ${path}`,
    `  what to do: ${remedy}`,
    '',
  ].join('\n')
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

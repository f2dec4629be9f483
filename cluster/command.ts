import { spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import { shorten } from '../api/shorten.ts'

/** A command could not be run or failed. The message contains the end of its output. */
export class CommandFailed extends Error {
  readonly command: readonly string[]
  readonly output: string
  /** The exit status; undefined if it did not exit. */
  readonly status: number | undefined

  constructor(
    command: readonly string[],
    outcome: string,
    output: string,
    options?: ErrorOptions & { readonly status?: number },
  ) {
    super(`${abbreviate(command)}: ${outcome}${output ? `\n${lastLines(output, 8)}` : ''}`, options)
    this.name = 'CommandFailed'
    this.command = command
    this.output = output
    this.status = options?.status
  }
}

export interface CommandOptions {
  /** A file to which the command and its output are appended. */
  readonly log?: string
  readonly directory?: string
  /** Added to the environment of this process. */
  readonly environment?: Readonly<Record<string, string>>
  readonly input?: string
  readonly timeoutMs?: number
  /** Called with each line of output, to show progress. */
  readonly onLine?: (line: string) => void
}

/**
 * Runs a command to its end and returns its standard output.
 *
 * @throws CommandFailed if it cannot be started, exits with a status other than 0, or takes longer than `timeoutMs`
 */
export async function run(command: readonly string[], options: CommandOptions = {}): Promise<string> {
  const [program, ...rest] = command
  if (program === undefined) throw new Error('no command')
  const log = options.log === undefined ? undefined : createWriteStream(options.log, { flags: 'a' })
  log?.write(`$ ${command.join(' ')}\n`)
  const child = spawn(program, rest, {
    cwd: options.directory,
    env: { ...process.env, ...options.environment },
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(options.timeoutMs === undefined ? {} : { timeout: options.timeoutMs, killSignal: 'SIGKILL' }),
  })
  const out: string[] = []
  const all: string[] = []
  const listen = (stream: NodeJS.ReadableStream, isOut: boolean) =>
    stream.setEncoding('utf8').on('data', (text: string) => {
      if (isOut) out.push(text)
      all.push(text)
      log?.write(text)
      for (const line of text.split('\n')) if (line.trim() !== '') options.onLine?.(line.trim())
    })
  listen(child.stdout, true)
  listen(child.stderr, false)
  // A command that does not read all its input closes the pipe; only its exit status shows whether it failed.
  child.stdin.on('error', () => {})
  child.stdin.end(options.input ?? '')
  try {
    const ended = await new Promise<{ code: number | null; signal: string | null }>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (code, signal) => resolve({ code, signal }))
    })
    const { code, signal } = ended
    if (code === null) throw new CommandFailed(command, `was ended by ${signal}`, all.join(''))
    if (code !== 0) throw new CommandFailed(command, `ended with status ${code}`, all.join(''), { status: code })
    return out.join('')
  } catch (error) {
    if (error instanceof CommandFailed) throw error
    throw new CommandFailed(command, error instanceof Error ? error.message : String(error), '', { cause: error })
  } finally {
    log?.end()
    if (log !== undefined) await finished(log)
  }
}

/** Like `run`, but returns undefined if the command fails. */
export async function attempt(command: readonly string[], options: CommandOptions = {}): Promise<string | undefined> {
  try {
    return await run(command, options)
  } catch (error) {
    if (error instanceof CommandFailed) return undefined
    throw error
  }
}

export function lastLines(text: string, count: number): string {
  return text.trimEnd().split('\n').slice(-count).join('\n')
}

function abbreviate(command: readonly string[]): string {
  return shorten(command.join(' ').replaceAll('\n', '; '), 160)
}

import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { Usage, codeOf, errorText } from './failure.ts'

/**
 * Runs a program with the streams of this one; resolves with its exit code, as a shell reports it.
 * @throws Usage if it cannot be run
 */
export function runProgram(program: string, words: readonly string[]): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  // The terminal sends them to the program, too, which decides.
  const ignore = () => {}
  process.on('SIGINT', ignore).on('SIGQUIT', ignore)
  spawn(program, words, { stdio: 'inherit' })
    .once('error', (error) => {
      const why = codeOf(error) === 'ENOENT' ? 'it is not installed, or not in PATH' : errorText(error)
      reject(new Usage(`${program} cannot be run: ${why}`, { cause: error }))
    })
    .once('close', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])))
  return promise.finally(() => process.off('SIGINT', ignore).off('SIGQUIT', ignore))
}

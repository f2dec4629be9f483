import { Command, CommanderError } from 'commander'
import about from '../package.json' with { type: 'json' }
import { commands } from './commands.ts'
import type { Entry } from './entry.ts'
import { errorLine } from './error-line.ts'
import { Usage, exitCodes } from './failure.ts'
import { optionOf } from './flags.ts'
import type { NamesOf } from './shell.ts'
import type { World } from './world.ts'

/** The commands of `kubectl preset`, which need no VMs. */
const presetCommands: ReadonlySet<string> = new Set(['complete', 'explain', 'test', 'impact', 'lint', 'completion'])

/** `kubectl vm` with all its commands, or `kubectl preset`; `exit` receives the exit code of the command that ran. */
function createProgram(world: World, exit: (code: number) => void): Command {
  const isPreset = world.plugin === 'preset'
  const name = `kubectl ${world.plugin}`
  const program = new Command(name)
    .description(
      isPreset
        ? 'Shows how presets complete objects of any kind, and tests and checks presets, with or without a cluster.'
        : 'Starts, stops and reaches virtual machines, and shows how presets complete them, with or without a cluster.',
    )
    .version(`v${about.version}`, '--version', 'print the version of this program')
    .showSuggestionAfterError()
    .showHelpAfterError(`(${name} --help lists the commands)`)
    .addHelpText('after', `\n${name} COMMAND --help shows the flags of a command and an example.`)
    .configureOutput({
      writeOut: world.out,
      writeErr: world.err,
      getOutHelpWidth: () => world.columns,
      getErrHelpWidth: () => world.columns,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .exitOverride()
  for (const entry of commands) {
    if (!isPreset || presetCommands.has(entry.name)) addCommand(program, entry, world, exit)
  }
  program
    .command('__complete', { hidden: true })
    .argument('[words...]')
    .allowUnknownOption()
    .helpOption(false)
    .action(async (words: readonly string[]) => {
      const { candidates } = await import('./shell.ts')
      const namesOf: NamesOf = async (kinds, flags) => (await import('./names.ts')).namesOf(kinds, flags, world)
      for (const word of await candidates(program, words, namesOf)) world.out(`${word}\n`)
    })
  return program
}

function addCommand(program: Command, entry: Entry, world: World, exit: (code: number) => void): void {
  const { name, description, example, exits: { code, when } = {} } = entry
  const comment = code === undefined ? '' : `    # exits with ${code} if ${when}`
  const command = program
    .command(name)
    .description(description)
    .showHelpAfterError(`(${program.name()} ${name} --help shows its flags and an example)`)
    .addHelpText('after', `\nExample:\n  ${program.name()} ${name} ${example}${comment}`)
  for (const word of entry.words) command.addArgument(word)
  for (const flag of entry.flags) command.addOption(optionOf(flag))
  command.action(async () => {
    if (entry.writes === true) world.goOn()
    exit(await entry.run(command.args, command.opts(), world))
  })
}

/** Runs a command line without the program's name. Returns the exit code; throws errors that are not user errors. */
export async function run(words: readonly string[], world: World): Promise<number> {
  let code: number = exitCodes.fine
  const program = createProgram(world, (result) => (code = result))
  try {
    await program.parseAsync(words, { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof Usage) {
      world.err(errorLine(error.message))
      return exitCodes.usage
    }
    // The library has printed the error; help is not an error.
    if (error instanceof CommanderError)
      return error.exitCode === 0 || words.length === 0 ? exitCodes.fine : exitCodes.usage
    throw error
  }
}

import type { World } from '../../cli/world.ts'
import { run } from '../../cli/program.ts'

/** All that a command line said, and its exit code. */
export interface Said {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs a command line in this process, in a world without terminal, cluster and standard input but for what is given. */
export async function say(
  words: readonly string[],
  given: Partial<World> & { readonly input?: string } = {},
): Promise<Said> {
  const { input = '', ...parts } = given
  const said = { out: '', err: '' }
  const world: World = {
    out: (text) => (said.out += text),
    err: (text) => (said.err += text),
    stdin: (async function* () {
      yield input
    })(),
    environment: {},
    isOutTerminal: false,
    isErrTerminal: false,
    columns: 100,
    now: () => 0,
    cluster: () => Promise.reject(new Error('there is no cluster here')),
    dial: () => Promise.reject(new Error('there is no daemon here')),
    changes: async () => (async function* () {})(),
    ...parts,
  }
  const code = await run(words, world)
  return { code, ...said }
}

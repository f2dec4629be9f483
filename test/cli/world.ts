import type { Cluster, World } from '../../cli/world.ts'
import { run } from '../../cli/program.ts'

/** The output of a command line and its exit code. */
export interface Output {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** For clusters without sessions. */
export const noSessions: Pick<Cluster, 'access' | 'attach' | 'stream'> = {
  access: { server: '', prove: () => Promise.reject(new Error('no credentials')) },
  attach: () => Promise.reject(new Error('no sessions')),
  stream: () => Promise.reject(new Error('no sessions')),
}

/** Runs a command line in this process, without terminal, cluster and standard input except as given. */
export async function runVm(
  words: readonly string[],
  given: Partial<World> & { readonly input?: string } = {},
): Promise<Output> {
  const { input = '', ...parts } = given
  const result = { out: '', err: '' }
  const world: World = {
    plugin: 'vm',
    out: (text) => (result.out += text),
    err: (text) => (result.err += text),
    goOn: () => {},
    escape: '\u001B',
    stdin: (async function* () {
      yield input
    })(),
    environment: {},
    isOutTerminal: false,
    isErrTerminal: false,
    columns: 100,
    now: () => 0,
    cluster: () => Promise.reject(new Error('no cluster')),
    terminal: () => Promise.reject(new Error('no terminal')),
    stdio: () => Promise.reject(new Error('no streams')),
    listen: () => Promise.reject(new Error('no network')),
    spawn: () => Promise.reject(new Error('no programs')),
    self: ['kubectl-vm'],
    page: () => Promise.reject(new Error('no page')),
    interrupted: () => Promise.reject(new Error('no signals')),
    dial: () => Promise.reject(new Error('no daemon')),
    changes: async () => (async function* () {})(),
    ...parts,
  }
  const code = await run(words, world)
  return { code, ...result }
}

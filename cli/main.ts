import { errorLine } from './error-line.ts'
import { codeOf, exitCodes } from './failure.ts'
import { terminalText } from './terminal-text.ts'
import type { World } from './world.ts'

/** Differs in each run, so that other people's text cannot contain it. `node:crypto` would take 6 ms. */
const escape = `\u001B${Math.random()}`
const shown = terminalText(escape)

let goesOn = false

const world: World = {
  // The name by which it was called; `process.execPath` is the file behind a link.
  plugin: /(?:^|\/)kubectl-preset$/.test(process.argv0) ? 'preset' : 'vm',
  out: (text) => process.stdout.write(shown(text, process.stdout.isTTY)),
  err: (text) => process.stderr.write(shown(text, process.stderr.isTTY)),
  goOn: () => void (goesOn = true),
  escape,
  stdin: process.stdin,
  environment: process.env,
  isOutTerminal: process.stdout.isTTY,
  isErrTerminal: process.stderr.isTTY,
  columns: process.stdout.columns || 80,
  // `performance` would load a part of Node that nothing else here uses, which takes 10 ms.
  now: () => Number(process.hrtime.bigint()) / 1e6,
  async cluster({ kubeconfig, context }) {
    const [{ kubeconfigAccess }, { createKubeClient }] = await Promise.all([
      import('../runtime/access.ts'),
      import('../runtime/kube.ts'),
    ])
    const access = await kubeconfigAccess({
      environment: process.env,
      ...(kubeconfig === undefined ? {} : { file: kubeconfig }),
      ...(context === undefined ? {} : { context }),
    })
    const { server, namespace } = access
    const kube = createKubeClient({ access, userAgent: 'kubectl-vm' })
    return {
      kube,
      access,
      server,
      attach: async (path, receiver) => (await import('./attachment.ts')).attach(access, path, receiver),
      stream: async (path, receiver) => (await import('./attachment.ts')).stream(access, path, receiver),
      ...(namespace === undefined ? {} : { namespace }),
    }
  },
  async terminal() {
    const { createTerminal } = await import('./terminal.ts')
    // A signal whose default ends the process runs no exit listener.
    for (const [signal, code] of [
      ['SIGTERM', 143],
      ['SIGHUP', 129],
    ] as const) {
      process.once(signal, () => process.exit(code))
    }
    return createTerminal({
      input: process.stdin,
      output: process.stdout,
      onExit: (restore) => void process.once('exit', restore),
    })
  },
  async stdio() {
    return (await import('./stdio.ts')).joined(process.stdin, process.stdout)
  },
  listen: async (at, onConnection) => (await import('./listen.ts')).listenAt(at, onConnection),
  spawn: async (program, words) => (await import('./spawn.ts')).runProgram(program, words),
  // The stand-alone executable has no script.
  self: [process.execPath, ...process.argv.slice(1, 2).filter((script) => script !== process.execPath)],
  page: async () => (await import('./page.ts')).readPage(),
  interrupted: () => new Promise((resolve) => process.once('SIGINT', resolve).once('SIGTERM', resolve)),
  async dial(path) {
    const { connect } = await import('node:net')
    return new Promise((resolve, reject) => {
      const socket = connect(path, () => resolve(socket)).once('error', reject)
    })
  },
  async changes(paths) {
    const { watchChanges } = await import('./watch.ts')
    return watchChanges(paths)
  },
}

process.stdout.on('error', (error) => {
  if (goesOn) return
  // A reader that closes the pipe early, such as `head`, is not a failure.
  if (codeOf(error) === 'EPIPE') process.exit(exitCodes.fine)
  world.err(errorLine(`standard output cannot be written: ${error.message}`))
  process.exit(exitCodes.usage)
})
// What a command does counts more than what it says of it. Without a listener, the error would end the program.
process.stderr.on('error', () => {})

/** The stand-alone executable does not support top-level await. */
async function main(): Promise<void> {
  const { run } = await import('./program.ts')
  process.exitCode = await run(process.argv.slice(2), world)
}

void main()

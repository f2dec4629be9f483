import { Argument, Option } from 'commander'
import type { ConsoleFlags, LogFlags, SessionStreams } from './console.ts'
import type { Entry } from './entry.ts'
import { clusterFlags, repeatable, wholeNumber, type Flags } from './flags.ts'
import { NameArgument, runningVm } from './name-argument.ts'
import type { PortForwardFlags } from './port-forward.ts'
import type { ScreenshotFlags } from './screenshot.ts'
import type { SendKeyFlags } from './send-key.ts'
import { withCluster } from './session.ts'
import type { SshFlags } from './ssh.ts'
import type { UiFlags } from './ui.ts'
import type { VncFlags } from './vnc.ts'
import type { Cluster, World } from './world.ts'

/** The commands that reach the guest of a running VM. */

const vmFlags = [
  new Option('-n, --namespace <name>', 'namespace of the VM (default: that of the context)'),
  ...clusterFlags,
]

const vmName = new NameArgument('<name>', 'a running VirtualMachine, or the VirtualMachineConfig of one', runningVm)

const tailFlag = new Option(
  '--tail <bytes>',
  'how much of the past output to show (default: all that is stored, up to 256 KiB)',
).argParser(wholeNumber)

const consoleEntry: Entry = {
  name: 'console',
  description: 'connect the terminal with the serial console of a VM; ^] leaves',
  example: 'web',
  words: [vmName],
  flags: [new Option('--no-input', 'only show the output'), tailFlag, ...vmFlags],
  async run([name = ''], flags: Flags & ConsoleFlags, world) {
    const { attachConsole } = await import('./console.ts')
    return withTerminal(flags, world, (cluster, streams) => attachConsole(name, flags, cluster, streams))
  },
}

const log: Entry = {
  name: 'log',
  description: 'print the output of the serial console of a VM',
  example: 'web --tail 1000',
  words: [vmName],
  flags: [new Option('-f, --follow', 'continue with new output until the VM ends'), tailFlag, ...vmFlags],
  async run([name = ''], flags: Flags & LogFlags, world) {
    const { printLog } = await import('./console.ts')
    return withTerminal(flags, world, (cluster, streams) => printLog(name, flags, cluster, streams))
  },
}

const vncEntry: Entry = {
  name: 'vnc',
  description: 'serve the screen of a VM on this host: in a web page, or to VNC viewers',
  example: 'web',
  words: [vmName],
  flags: [
    new Option(
      '--listen <address>',
      'serve VNC viewers at PORT or HOST:PORT, where port 0 is any free one, or at the path of a unix socket',
    ),
    ...vmFlags,
  ],
  async run([name = ''], flags: Flags & VncFlags, world) {
    const { vnc } = await import('./vnc.ts')
    return withCluster(flags, world, async (cluster) =>
      vnc(name, flags, cluster, { ...world, clock: await systemClock() }),
    )
  },
}

const portForward: Entry = {
  name: 'port-forward',
  description: 'forward local ports to TCP ports of a VM',
  example: 'web 8080:80',
  words: [vmName, new Argument('[ports...]', 'LOCAL:REMOTE, :REMOTE for any free local port, or one number for both')],
  flags: [
    new Option('--address <address>', 'the local address to listen on').default('127.0.0.1'),
    new Option('--stdio', 'connect standard input and output with one port of the VM, as a ProxyCommand of ssh'),
    ...vmFlags,
  ],
  async run([name = '', ...ports], flags: Flags & PortForwardFlags, world) {
    const { forwardPorts } = await import('./port-forward.ts')
    return withCluster(flags, world, async (cluster) =>
      forwardPorts(name, ports, flags, cluster, { ...world, clock: await systemClock() }),
    )
  },
}

const sshFlags = [
  new Option('-p, --port <port>', 'the port of the SSH server in the guest').default('22'),
  new Option('-i, --identity-file <file>', 'the private key, as for ssh'),
  repeatable('-o, --ssh-option <option>', 'an option of ssh, such as StrictHostKeyChecking=accept-new (repeatable)'),
  ...vmFlags,
]

const sshEntry: Entry = {
  name: 'ssh',
  description: 'log in to a VM with ssh, through the API server',
  example: 'root@web -- uname -a',
  words: [
    new NameArgument('<destination>', '[USER@]VM', runningVm),
    new Argument('[command...]', 'what to run, after --'),
  ],
  flags: sshFlags,
  async run(words, flags: Flags & SshFlags, world) {
    const { ssh } = await import('./ssh.ts')
    return withCluster(flags, world, (cluster) => ssh(words, flags, cluster, world))
  },
}

const scpEntry: Entry = {
  name: 'scp',
  description: 'copy files to and from a VM with scp',
  example: 'notes.txt root@web:/tmp/',
  words: [new Argument('<paths...>', 'local paths, and [USER@]VM:PATH; the last one is the target')],
  flags: [new Option('-r, --recursive', 'copy directories'), ...sshFlags],
  async run(words, flags: Flags & SshFlags & { readonly recursive?: true }, world) {
    const { scp } = await import('./ssh.ts')
    return withCluster(flags, world, (cluster) => scp(words, flags, cluster, world))
  },
}

const screenshot: Entry = {
  name: 'screenshot',
  description: 'write a picture of the screen of a VM to a PNG file',
  example: 'web -o web.png',
  words: [vmName],
  flags: [new Option('-o, --output <file>', 'the file; - for standard output (default: NAME.png)'), ...vmFlags],
  async run([name = ''], flags: Flags & ScreenshotFlags, world) {
    const { takeScreenshot } = await import('./screenshot.ts')
    return withTerminal(flags, world, (cluster, streams) =>
      takeScreenshot(name, flags, cluster, { ...world, terminal: streams.terminal }),
    )
  },
}

const sendKey: Entry = {
  name: 'send-key',
  description: 'press keys on the keyboard of a VM',
  example: 'web ctrl-alt-delete',
  words: [vmName, new Argument('[keys...]', 'combinations such as ctrl-alt-delete, pressed one after the other')],
  flags: [new Option('--text <text>', 'type this text first, on a US keyboard'), ...vmFlags],
  async run([name = '', ...keys], flags: Flags & SendKeyFlags, world) {
    const { sendKeys } = await import('./send-key.ts')
    return withCluster(flags, world, async (cluster) =>
      sendKeys(name, keys, flags, cluster, { err: world.err, clock: await systemClock() }),
    )
  },
}

const uiEntry: Entry = {
  name: 'ui',
  description: 'serve a web page with VMs, their screens and consoles on this host',
  example: '-n team-a',
  words: [],
  flags: [
    new Option('--port <port>', 'port on 127.0.0.1').argParser(wholeNumber).default(0, 'a free one'),
    new Option('-n, --namespace <name>', 'show only this namespace'),
    ...clusterFlags,
  ],
  async run(_, flags: Flags & UiFlags, world) {
    const { ui } = await import('./ui.ts')
    return withCluster(flags, world, (cluster) => ui(flags, cluster, world))
  },
}

const systemClock = async () => (await import('../runtime/clock.ts')).systemClock

async function withTerminal(
  flags: Flags,
  world: World,
  run: (cluster: Cluster, streams: SessionStreams) => Promise<number>,
): Promise<number> {
  const [terminal, clock] = await Promise.all([world.terminal(), systemClock()])
  const { out, err, isOutTerminal } = world
  return withCluster(flags, world, (cluster) => run(cluster, { out, err, isOutTerminal, terminal, clock }))
}

/** In the order shown by the help. */
export const sessionCommands: readonly Entry[] = [
  consoleEntry,
  log,
  vncEntry,
  screenshot,
  sendKey,
  sshEntry,
  scpEntry,
  portForward,
  uiEntry,
]

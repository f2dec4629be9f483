import { spawn } from 'node:child_process'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { shorten } from '../../api/shorten.ts'
import type { Clock } from '../../runtime/clock.ts'
import {
  InvalidNetworkMessage,
  maxNetworkBytes,
  parseNetworkResult,
  type NetworkCommand,
  type NetworkRequest,
  type NetworkResult,
} from '../../runtime/network-api.ts'
import { shownText } from '../../runtime/shown-text.ts'

/** The message is for the user of the VM, with what the plugin wrote to stderr. */
export class PluginFailed extends Error {
  override name = 'PluginFailed'
}

interface PluginOptions {
  /** A program and its arguments for each plugin of virtset itself. */
  readonly builtIn: ReadonlyMap<string, readonly [string, ...string[]]>
  readonly builtInEnvironment?: Readonly<Record<string, string>>
  /** The directory with the executables of all others. */
  readonly directory: string
  readonly clock: Clock
}

export interface PluginRun {
  readonly command: NetworkCommand
  readonly request: NetworkRequest
  /** Of the pod's network namespace; absent only for `del`, if the pod is gone. */
  readonly network: number | undefined
}

/** After that, the plugin and the processes that it started are killed. */
export const pluginDeadlineMs = 60_000
/** What is kept of stderr, from its end. */
const stderrBytes = 2048
const drainMs = 1000
/** How a plugin names the network namespace that it inherits. */
const inherited = '/proc/self/fd/3'

/**
 * Runs a plugin once: the command in the variable VIRTSET_COMMAND, the request on stdin, the result on stdout, and the
 * network namespace of the pod as descriptor 3.
 * @returns the result of `add`; of others undefined
 * @throws PluginFailed
 */
export async function runPlugin(options: PluginOptions, run: PluginRun): Promise<NetworkResult | undefined> {
  const { command, request, network } = run
  const name = request.plugin
  const [program, ...args] = options.builtIn.get(name) ?? [join(options.directory, name)]
  const { plugin: _, ...rest } = request
  const input = { ...rest, ...(network === undefined ? {} : { netns: inherited }) }
  const env = {
    PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
    VIRTSET_COMMAND: command.toUpperCase(),
    ...(options.builtIn.has(name) ? options.builtInEnvironment : {}),
  }
  const stdio = ['pipe', 'pipe', 'pipe', network ?? 'ignore'] as const
  // A process group of its own, so that what it started ends with it.
  const child = spawn(program, args, { env, stdio: [...stdio], detached: true })
  const kill = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // The last process of the group has ended.
    }
  }
  let reason: string | undefined
  const end = (why: string) => {
    reason ??= why
    kill()
  }
  const cancel = options.clock.after(pluginDeadlineMs, () => end(`did not end within ${pluginDeadlineMs / 1000} s`))
  const [stdin, stdout, stderr] = [child.stdin, child.stdout, child.stderr]
  if (stdin === null || stdout === null || stderr === null) throw new Error('a plugin has no pipes')
  // A plugin that does not read its request fails by its exit status, if at all.
  stdin.on('error', () => {})
  stdin.end(JSON.stringify(input))
  const printed = head(stdout, () => end(`printed more than ${maxNetworkBytes} bytes`))
  const complaint = tail(stderr)
  // Before the exit: both events can come at once.
  const closed = new Promise((resolve) => child.once('close', resolve))
  try {
    const status = await exitOf(child)
    // What it left behind must not keep the pipes; a process that has left the group can.
    kill()
    const release = options.clock.after(drainMs, () => {
      stdout.destroy()
      stderr.destroy()
    })
    await closed
    release()
    if (reason === undefined && status !== 0) reason = `failed (${status})`
    if (reason !== undefined) throw new PluginFailed(messageOf(name, command, reason, complaint()))
    return command === 'add' ? resultOf(name, printed(), complaint()) : undefined
  } finally {
    cancel()
  }
}

function resultOf(name: string, text: string, complaint: string): NetworkResult {
  try {
    const value: unknown = JSON.parse(text)
    return parseNetworkResult(value)
  } catch (error) {
    const cause = error instanceof InvalidNetworkMessage ? error.message : 'it is not JSON'
    throw new PluginFailed(messageOf(name, 'add', `printed an invalid result: ${cause}`, complaint), { cause: error })
  }
}

function messageOf(name: string, command: NetworkCommand, reason: string, complaint: string): string {
  const said = complaint === '' ? '' : `: ${complaint}`
  return shorten(`network plugin ${name}: ${command.toUpperCase()} ${reason}${said}`, stderrBytes + 512)
}

/** The exit status or signal. */
function exitOf(child: ReturnType<typeof spawn>): Promise<number | string> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => {
      const code = 'code' in error ? String(error.code) : error.message
      const what = code === 'ENOENT' ? 'is not installed on this node' : `cannot be run (${code})`
      reject(new PluginFailed(`network plugin ${child.spawnfile.split('/').at(-1) ?? ''} ${what}`, { cause: error }))
    })
    child.once('exit', (status, signal) => resolve(status ?? signal ?? 'unknown'))
  })
}

/** What a stream begins with; calls `onOverflow` if that is not all. */
function head(stream: Readable, onOverflow: () => void): () => string {
  const chunks: Buffer[] = []
  let bytes = 0
  stream.on('error', () => {})
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxNetworkBytes) onOverflow()
    else chunks.push(chunk)
  })
  return () => Buffer.concat(chunks).toString('utf8')
}

/** What a stream ends with. */
function tail(stream: Readable): () => string {
  let kept = Buffer.alloc(0)
  stream.on('error', () => {})
  stream.on('data', (chunk: Buffer) => {
    kept = Buffer.concat([kept, chunk.subarray(-stderrBytes)]).subarray(-stderrBytes)
  })
  return () => shownText(kept.toString('utf8').trim())
}

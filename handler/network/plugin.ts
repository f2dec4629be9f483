import { join } from 'node:path'
import { shorten } from '../../api/shorten.ts'
import type { Clock } from '../../runtime/clock.ts'
import {
  InvalidNetworkMessage,
  parseNetworkResult,
  type NetworkCommand,
  type NetworkRequest,
  type NetworkResult,
} from '../../runtime/network-api.ts'
import { shownText } from '../../runtime/shown-text.ts'
import { podPrograms, type BuiltIn } from './built-in.ts'
import { inheritedNetwork, runChild, stderrBytes, type ChildEnd } from './child.ts'

/** The message is for the user of the VM, with what the plugin wrote to stderr. */
export class PluginFailed extends Error {
  override name = 'PluginFailed'
}

interface PluginOptions {
  readonly builtIn: ReadonlyMap<string, BuiltIn>
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

/**
 * Runs a plugin once.
 * @returns the result of `add`; of others undefined
 * @throws PluginFailed
 */
export async function runPlugin(options: PluginOptions, run: PluginRun): Promise<NetworkResult | undefined> {
  const { builtIn, clock } = options
  const deadline = new AbortController()
  const cancel = clock.after(pluginDeadlineMs, () => deadline.abort(`did not end within ${pluginDeadlineMs / 1000} s`))
  try {
    const own = builtIn.get(run.request.plugin)
    return await (own === undefined
      ? runExecutable(options, run, deadline.signal)
      : runBuiltIn(own, run, deadline.signal, clock))
  } finally {
    cancel()
  }
}

async function runBuiltIn(
  plugin: BuiltIn,
  { command, request, network }: PluginRun,
  deadline: AbortSignal,
  clock: Clock,
): Promise<NetworkResult | undefined> {
  // Everything goes with the network of the pod.
  if (network === undefined) return undefined
  try {
    const pod = podPrograms(network, deadline, clock)
    if (command === 'add') return parseNetworkResult(await plugin.add(request, pod))
    await plugin[command](request, pod)
    return undefined
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const message = messageOf(request.plugin, command, deadline.aborted ? reason : `failed: ${reason}`, '')
    throw new PluginFailed(shownText(message), { cause: error })
  }
}

/**
 * The command is in the variable VIRTSET_COMMAND, the request on stdin, the result on stdout, and the network namespace
 * of the pod is descriptor 3.
 */
async function runExecutable(
  { directory, clock }: PluginOptions,
  { command, request, network }: PluginRun,
  deadline: AbortSignal,
): Promise<NetworkResult | undefined> {
  const { plugin: name, ...rest } = request
  const input = JSON.stringify({ ...rest, ...(network === undefined ? {} : { netns: inheritedNetwork }) })
  const environment = { VIRTSET_COMMAND: command.toUpperCase() }
  const ended = await runChild([join(directory, name)], { environment, input, network, deadline, clock }).catch(
    (error: unknown) => {
      throw notRun(name, error)
    },
  )
  const reason = ended.killed ?? (ended.status === 0 ? undefined : `failed (${ended.status})`)
  if (reason !== undefined) throw new PluginFailed(messageOf(name, command, reason, ended.complaint))
  return command === 'add' ? resultOf(name, ended) : undefined
}

function notRun(name: string, error: unknown): PluginFailed {
  const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
  const what = code === 'ENOENT' ? 'is not installed on this node' : `cannot be run (${code})`
  return new PluginFailed(`network plugin ${name} ${what}`, { cause: error })
}

function resultOf(name: string, { stdout, complaint }: ChildEnd): NetworkResult {
  try {
    const value: unknown = JSON.parse(stdout)
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

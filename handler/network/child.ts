import { spawn, type ChildProcess } from 'node:child_process'
import type { Readable } from 'node:stream'
import type { Clock } from '../../runtime/clock.ts'
import { joinChunks } from '../../runtime/joined-chunks.ts'
import { maxNetworkBytes } from '../../runtime/network-api.ts'
import { shownText } from '../../runtime/shown-text.ts'

interface ChildOptions {
  /** Without those of the agent. */
  readonly environment?: Readonly<Record<string, string>>
  readonly input?: string
  /** A network namespace, which the program inherits as descriptor 3. */
  readonly network: number | undefined
  /** Ends the program; its reason is why. */
  readonly deadline: AbortSignal
  readonly clock: Clock
}

/** How a program ended. */
export interface ChildEnd {
  /** The exit status, or the signal. */
  readonly status: number | string
  /** Why it was killed. */
  readonly killed?: string
  readonly stdout: string
  /** The end of stderr, for users. */
  readonly complaint: string
}

/** The path of descriptor 3 for a program that inherits it. */
export const inheritedNetwork = '/proc/self/fd/3'
/** What is kept of stderr, from its end. */
export const stderrBytes = 2048
const drainMs = 1000

/**
 * Runs a program, and kills everything that it has started: it has a process group of its own.
 * @throws if it cannot be run
 */
export async function runChild(
  [program, ...args]: readonly [string, ...string[]],
  { environment, input = '', network, deadline, clock }: ChildOptions,
): Promise<ChildEnd> {
  deadline.throwIfAborted()
  const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ...environment }
  const child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe', network ?? 'ignore'], detached: true })
  let killed: string | undefined
  const end = (why: string) => {
    killed ??= why
    killGroup(child)
  }
  const onDeadline = () => end(String(deadline.reason))
  deadline.addEventListener('abort', onDeadline)
  const [stdin, stdout, stderr] = [child.stdin, child.stdout, child.stderr]
  if (stdin === null || stdout === null || stderr === null) throw new Error('a program has no pipes')
  // A program that does not read its input fails by its exit status, if at all.
  stdin.on('error', () => {})
  stdin.end(input)
  const printed = head(stdout, () => end(`printed more than ${maxNetworkBytes} bytes`))
  const complaint = tail(stderr)
  // Before the exit: both events can come at once.
  const closed = new Promise((resolve) => child.once('close', resolve))
  try {
    const status = await statusOf(child)
    // What it left behind must not keep the pipes; a process that has left the group can.
    killGroup(child)
    const release = clock.after(drainMs, () => {
      stdout.destroy()
      stderr.destroy()
    })
    await closed
    release()
    return { status, ...(killed === undefined ? {} : { killed }), stdout: printed(), complaint: complaint() }
  } finally {
    deadline.removeEventListener('abort', onDeadline)
  }
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // The last process of the group has ended.
  }
}

function statusOf(child: ChildProcess): Promise<number | string> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (status, signal) => resolve(status ?? signal ?? 'unknown'))
  })
}

/** What a stream begins with; calls `onOverflow` if that is not all. */
function head(stream: Readable, onOverflow: () => void): () => string {
  const joined = joinChunks()
  let bytes = 0
  stream.on('error', () => {})
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxNetworkBytes) onOverflow()
    else joined.add(chunk)
  })
  return () => joined.text()
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

import { isRecord } from '../../api/schema.ts'
import { AgentUnresponsive, isAgentLate } from './agent-errors.ts'
import type { Connection } from './connection.ts'
import type { DomainRef } from './domain.ts'
import { LibvirtError } from './errors.ts'

/** The agent refuses the command, or its reply makes no sense. */
export class AgentRefused extends Error {
  override name = 'AgentRefused'
}

/** A process in the guest. The agent forgets it when it has reported its end. */
export type GuestProcess =
  | { readonly isRunning: true }
  | {
      readonly isRunning: false
      readonly exitCode?: number
      /** On Windows the code of an exception. */
      readonly signal?: number
      /** The first bytes of what it wrote, as text. */
      readonly output: string
      readonly errors: string
    }

/** How long libvirt waits for a reply of the agent. */
const agentTimeoutSeconds = 5
/** libvirt first synchronizes with the agent, which can take as long again. */
const deadlineMs = 20_000

/** The agent captures up to 16 MiB. */
const maxOutputBytes = 2048

/** A reply has fewer than ten. libvirt passes on 4 MiB, which can be more objects than the launcher has memory for. */
const maxValues = 1000

/**
 * Starts a command in the guest, without a shell. Returns the id of its process there.
 * @throws AgentUnresponsive, AgentRefused, ConnectionLost
 */
export async function startProcess(
  connection: Pick<Connection, 'call'>,
  dom: DomainRef,
  [path, ...arg]: readonly string[],
): Promise<number> {
  const { pid } = await askFor(connection, dom, 'guest-exec', { path, arg, 'capture-output': true })
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid)) throw new AgentRefused('the agent returned no process id')
  return pid
}

/** @throws AgentUnresponsive; AgentRefused also if the agent does not know the process; ConnectionLost */
export async function readProcess(
  connection: Pick<Connection, 'call'>,
  dom: DomainRef,
  pid: number,
): Promise<GuestProcess> {
  const status = await askFor(connection, dom, 'guest-exec-status', { pid })
  if (status['exited'] !== true) return { isRunning: true }
  const { exitcode, signal } = status
  return {
    isRunning: false,
    ...(typeof exitcode === 'number' ? { exitCode: exitcode } : {}),
    ...(typeof signal === 'number' ? { signal } : {}),
    output: decoded(status['out-data']),
    errors: decoded(status['err-data']),
  }
}

/** Four characters of Base64 are three bytes. */
const decoded = (data: unknown): string =>
  typeof data === 'string' ? Buffer.from(data.slice(0, (maxOutputBytes / 3) * 4), 'base64').toString() : ''

async function askFor(
  connection: Pick<Connection, 'call'>,
  dom: DomainRef,
  execute: string,
  given: { readonly [name: string]: unknown },
): Promise<{ readonly [name: string]: unknown }> {
  const cmd = JSON.stringify({ execute, arguments: given })
  try {
    const asked = { dom, cmd, timeout: agentTimeoutSeconds, flags: 0 }
    const { result } = await connection.call('qemu_domain_agent_command', asked, deadlineMs)
    if (typeof result === 'string' && !hasFewValues(result))
      throw new AgentRefused(`the reply to ${execute} has more than ${maxValues} values`)
    const reply = typeof result === 'string' ? parsed(result) : undefined
    if (!isRecord(reply) || !isRecord(reply['return'])) throw new AgentRefused(`the reply to ${execute} makes no sense`)
    return reply['return']
  } catch (error) {
    if (isAgentLate(error)) throw new AgentUnresponsive(error.message, { cause: error })
    if (error instanceof LibvirtError) throw new AgentRefused(error.message, { cause: error })
    throw error
  }
}

/** Output is in Base64, which has none of these characters. */
function hasFewValues(text: string): boolean {
  let values = 0
  for (const _ of text.matchAll(/[[{,]/g)) if (++values > maxValues) return false
  return true
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

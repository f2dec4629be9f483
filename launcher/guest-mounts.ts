import { shorten } from '../api/shorten.ts'
import type { AgentState } from '../runtime/guest-info.ts'
import { AgentBusy } from './attached-volumes.ts'
import { agentReturnMinutes } from './guest-agent.ts'
import { AgentUnclear, AgentUnresponsive } from './libvirt/agent-errors.ts'
import { LibvirtError } from './libvirt/errors.ts'

interface Agent {
  /** Undefined without a channel. */
  readonly state: AgentState | undefined
  readonly mayReturn: boolean
  readonly isFrozen: boolean
}

/** Characters of what an agent states, or libvirt for it. */
const longestReason = 256

/**
 * Where a disk is mounted, by the agent; undefined if there is none.
 * @param read throws AgentUnclear, AgentUnresponsive, or LibvirtError if the agent does not answer this question
 * @throws AgentBusy if the agent does not tell, and the disk may be mounted
 */
export async function mountsOf(
  read: () => Promise<readonly string[]>,
  { state, mayReturn, isFrozen }: Agent,
): Promise<readonly string[] | undefined> {
  if (isFrozen) throw new AgentBusy('the guest is frozen for a snapshot')
  if (state === undefined || state === 'disconnected') {
    if (!mayReturn) return undefined
    throw new AgentBusy(`the agent in the guest has disconnected, and has ${agentReturnMinutes} minutes to return`)
  }
  try {
    return await read()
  } catch (error) {
    if (error instanceof AgentUnresponsive) throw new AgentBusy('the agent in the guest does not answer')
    if (error instanceof AgentUnclear) throw new AgentBusy(error.message)
    if (!(error instanceof LibvirtError)) throw error
    const reason = shorten(error.message, longestReason)
    throw new AgentBusy(`the agent in the guest does not report its file systems: ${reason}`)
  }
}
